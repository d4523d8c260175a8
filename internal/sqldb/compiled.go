package sqldb

import (
	"context"
	"database/sql"
	"sync"
)

// compiled is a pool that keeps the compiled form of what it is asked: SQLite's driver
// compiles every text anew, which is half of what a read by key costs. The texts are few:
// statements are constants, and lists come in a few lengths.
type compiled struct {
	*sql.DB
	byText sync.Map // string → *sql.Stmt
}

func (c *compiled) statement(ctx context.Context, text string) (*sql.Stmt, error) {
	if s, ok := c.byText.Load(text); ok {
		return s.(*sql.Stmt), nil
	}
	made, err := c.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	kept, taken := c.byText.LoadOrStore(text, made)
	if taken {
		_ = made.Close() //nolint:sqlclosecheck // another request was faster: this one is not used
	}
	return kept.(*sql.Stmt), nil
}

// QueryContext is that of sql.DB.
func (c *compiled) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	s, err := c.statement(ctx, text) //nolint:sqlclosecheck // kept until the pool is closed
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// QueryRowContext is that of sql.DB.
func (c *compiled) QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row {
	s, err := c.statement(ctx, text) //nolint:sqlclosecheck // kept until the pool is closed
	if err != nil {
		return c.DB.QueryRowContext(ctx, text, args...) // a row that holds the error
	}
	return s.QueryRowContext(ctx, args...)
}
