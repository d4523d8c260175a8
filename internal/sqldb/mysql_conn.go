package sqldb

import (
	"context"
	"database/sql/driver"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

// mysqlConnector opens connections that bound everything. The driver watches the context of
// what it asks, and breaks the connection when that is over; but database/sql hands COMMIT
// and ROLLBACK none, and the driver's own bound ends before the server has greeted.
type mysqlConnector struct{ cfg *mysql.Config }

// Connect implements driver.Connector.
func (c mysqlConnector) Connect(ctx context.Context) (driver.Conn, error) {
	within, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	var wire net.Conn
	cfg := c.cfg.Clone()
	cfg.DialFunc = func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
		wire, err = c.cfg.DialFunc(ctx, network, addr)
		return wire, err
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	conn, err := connector.Connect(within)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return nil, &net.OpError{Op: "connect", Net: c.cfg.Net, Err: fmt.Errorf("%w: %w", os.ErrDeadlineExceeded, err)}
	}
	if err != nil {
		return nil, err
	}
	full, ok := conn.(mysqlDriverConn)
	if !ok {
		return nil, fmt.Errorf("mysql: the driver's %T lacks what it had", conn)
	}
	return &mysqlConn{mysqlDriverConn: full, wire: wire}, nil
}

// Driver implements driver.Connector.
func (c mysqlConnector) Driver() driver.Driver { return mysql.MySQLDriver{} }

// mysqlDriverConn is all that database/sql may ask of the driver's connections.
type mysqlDriverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// mysqlConn is one connection.
type mysqlConn struct {
	mysqlDriverConn
	wire   net.Conn
	hungUp atomic.Bool // the driver does not know it yet
}

// IsValid implements driver.Validator.
func (c *mysqlConn) IsValid() bool { return !c.hungUp.Load() && c.mysqlDriverConn.IsValid() }

// BeginTx implements driver.ConnBeginTx.
func (c *mysqlConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.mysqlDriverConn.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &mysqlTx{tx, ctx, c}, nil
}

// until breaks the connection when ctx is over before the function it returns is called.
func (c *mysqlConn) until(ctx context.Context) (answered func()) {
	stop := context.AfterFunc(ctx, func() {
		c.hungUp.Store(true)
		_ = c.wire.SetDeadline(time.Unix(1, 0)) // whoever reads wakes up, and the driver closes it
	})
	return func() {
		if !stop() {
			c.hungUp.Store(true)
		}
	}
}

// mysqlTx is one transaction.
type mysqlTx struct {
	driver.Tx
	ctx  context.Context
	conn *mysqlConn
}

// Commit implements driver.Tx.
func (t *mysqlTx) Commit() error {
	defer t.conn.until(t.ctx)()
	return t.Tx.Commit()
}

// Rollback implements driver.Tx. It often comes because the context is over.
func (t *mysqlTx) Rollback() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), rollbackWait)
	defer cancel()
	defer t.conn.until(ctx)()
	return t.Tx.Rollback()
}
