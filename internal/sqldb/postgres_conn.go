package sqldb

import (
	"context"
	"crypto/tls"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/lethe-project/lethe/internal/fault"
)

// interrupter breaks a connection whose context is over, as the driver does by itself, and
// has it say why: of rows that were being read the driver reports what the connection says.
type interrupter struct {
	pgconn.DeadlineContextWatcherHandler
	wire *wire
}

func newInterrupter(pc *pgconn.PgConn) ctxwatch.Handler {
	i := &interrupter{DeadlineContextWatcherHandler: pgconn.DeadlineContextWatcherHandler{Conn: pc.Conn()}}
	conn := pc.Conn()
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	i.wire, _ = conn.(*wire)
	return i
}

// HandleCancel implements ctxwatch.Handler.
func (i *interrupter) HandleCancel(ctx context.Context) {
	if late, ok := ctx.Err().(*fault.Error); ok && i.wire != nil { //nolint:errorlint // as bounded has it
		i.wire.late.Store(late)
	}
	i.DeadlineContextWatcherHandler.HandleCancel(ctx)
}
