package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/lethe-project/lethe/internal/blob/local"
	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/edge/files"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/tenant"
)

// driveFS is the one drive of the rooms.
const driveFS tree.FS = 1

// driveRooms are the drive with its face, assembled as the server does with its default
// settings, over an empty database. Nothing runs in the background unless the removal is
// started: neither the sequencer nor the collector, which would share what is measured.
type driveRooms struct {
	db      *sqldb.DB
	removal *removal.Removal
	handler http.Handler
	close   func() error
}

// driveRooms calls step, nil for none, at the steps of deletes.
func (b *bench) driveRooms(ctx context.Context, step func(step string)) (_ *driveRooms, err error) {
	data, err := os.MkdirTemp(b.dir, "drive-")
	if err != nil {
		return nil, err
	}
	dsn, cleanup, err := b.emptyDatabase(ctx)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(data))
	}
	r := &driveRooms{close: func() error { return errors.Join(os.RemoveAll(data), cleanup()) }}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if dsn == "" {
		dsn = "sqlite:" + filepath.Join(data, "lethe.db")
	}
	if r.db, err = sqldb.Open(ctx, dsn, sqldb.Config{}); err != nil {
		return nil, err
	}
	r.close = closing(r.db.Close, r.close)
	if err := r.db.Migrate(ctx, tree.Migrations, content.Migrations, feed.Migrations, removal.Migrations); err != nil {
		return nil, err
	}
	bucket, err := local.Open(filepath.Join(data, "drive"))
	if err != nil {
		return nil, err
	}
	r.close = closing(bucket.Close, r.close)
	t, events := tree.New(r.db), feed.New(feed.Config{DB: r.db})
	contents := content.New(content.Config{
		DB: r.db, Bucket: bucket, Prefix: "objects",
		NewID: func(ctx context.Context, fs int64) (int64, error) { return t.NewID(ctx, tree.FS(fs)) },
	})
	cfg := removal.Config{DB: r.db, Tree: t, Content: contents, Feed: events, Owner: "bench"}
	if step != nil {
		cfg.Step = func(_ context.Context, name string) error {
			step(name)
			return nil
		}
	}
	r.removal = removal.New(cfg)
	d := drive.New(drive.Config{DB: r.db, Tree: t, Content: contents, Feed: events, Removal: r.removal})
	if err := d.CreateDrive(ctx, driveFS); err != nil {
		return nil, err
	}
	r.handler = files.New(files.Config{
		Drive: d, Content: contents, Feed: events, Removal: r.removal,
		Principal: func(context.Context) *tenant.Principal {
			return &tenant.Principal{Name: "bench", Tenant: tenant.ID(driveFS), TenantName: tenant.Default, Grants: []tenant.Grant{{Admin: true}}}
		},
	})
	return r, nil
}

// work starts the workers that sweep, until the rooms are closed.
func (r *driveRooms) work() {
	r.removal.Start()
	r.close = closing(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		defer cancel()
		return r.removal.Stop(ctx)
	}, r.close)
}

// do sends one request to the face, without a network between.
func (r *driveRooms) do(ctx context.Context, method, path, body string, header ...string) (*httptest.ResponseRecorder, error) {
	var from io.Reader = http.NoBody
	if body != "" {
		from = strings.NewReader(body)
	}
	req := httptest.NewRequestWithContext(ctx, method, path, from)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	answer := httptest.NewRecorder()
	r.handler.ServeHTTP(answer, req)
	if answer.Code/100 != 2 {
		return nil, fmt.Errorf("%s %s: %d: %s", method, path, answer.Code, answer.Body)
	}
	return answer, nil
}

// durability says what the database does before it answers a COMMIT: a figure of a server
// that keeps nothing is no figure.
func durability(ctx context.Context, db *sqldb.DB) (said string, err error) {
	questions := map[sqldb.Name][]sqldb.Statement{
		sqldb.Postgres: {"SELECT 'fsync', current_setting('fsync')", "SELECT 'synchronous_commit', current_setting('synchronous_commit')"},
		sqldb.MySQL: {
			"SHOW VARIABLES LIKE 'innodb_flush_log_at_trx_commit'", "SHOW VARIABLES LIKE 'innodb_flush_method'",
			"SHOW VARIABLES LIKE 'sync_binlog'", "SHOW VARIABLES LIKE 'log_bin'",
		},
		sqldb.SQLite: {"SELECT 'synchronous', 'FULL'"}, // of the connections that write
	}[db.Dialect().Name]
	var all []string
	for _, q := range questions {
		var name, value string
		if err := db.QueryRow(ctx, q).Scan(&name, &value); err != nil {
			return "", fmt.Errorf("%s: %w", q, err)
		}
		all = append(all, name+"="+value)
	}
	return strings.Join(all, " "), nil
}
