package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// emptyDatabase makes a database of its own for one server and returns its URL, and what
// removes it. SQLite needs neither: it lies in the data folder.
func (b *bench) emptyDatabase(ctx context.Context) (string, func() error, error) {
	if b.database == "" {
		return "", func() error { return nil }, nil
	}
	u, err := url.Parse(b.database)
	if err != nil {
		return "", nil, fmt.Errorf("--database: %w", err)
	}
	name := "lethe_bench_" + strings.ToLower(rand.Text()[:10])
	if err := b.exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", nil, err
	}
	u.Path = "/" + name
	return u.String(), func() error {
		// Also after an interrupt: the database must not stay behind.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if u.Scheme == "mysql" {
			return b.exec(ctx, "DROP DATABASE "+name)
		}
		return b.exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
	}, nil
}

func (b *bench) exec(ctx context.Context, statement string) (err error) {
	if strings.HasPrefix(b.database, "mysql://") {
		db, err := sqldb.Open(ctx, b.database, sqldb.Config{})
		if err != nil {
			return fmt.Errorf("--database: %w", err)
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		_, err = db.Exec(ctx, sqldb.Statement(statement))
		return err
	}
	conn, err := pgx.Connect(ctx, b.database)
	if err != nil {
		return fmt.Errorf("--database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // the statement has answered
	_, err = conn.Exec(ctx, statement)
	return err
}
