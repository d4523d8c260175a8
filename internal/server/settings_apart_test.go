package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each place is given below one folder that holds data, wh (a link's target is real),
// other and etc.
func TestStorageApartFromTheServersOwnFiles(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		links map[string]string // name → target, below the folder
		args  []string          // DIR is the folder
		want  string            // in the message; empty is accepted
	}{
		{name: "the default", args: nil},
		{name: "beside", args: []string{"--storage=DIR/wh"}},
		{name: "a name that begins alike", args: []string{"--storage=DIR/dat"}},
		{name: "another folder in the data folder", args: []string{"--storage=DIR/data/tables", "--warehouse-allowed-locations=file://DIR/data/more"}},
		{name: "beside, by a link", links: map[string]string{"link": "wh"}, args: []string{"--storage=DIR/link"}},
		{name: "the default is a link", links: map[string]string{"data/warehouse": "../wh"}},
		{name: "in S3", args: []string{"--storage=s3://bucket/x", "--warehouse-allowed-locations=s3://other"}},

		{name: "around the data folder", args: []string{"--storage=DIR"}, want: "the data folder"},
		{name: "the whole machine", args: []string{"--storage=/"}, want: "the data folder"},
		{name: "the data folder", args: []string{"--storage=file://DIR/data/"}, want: "the data folder"},
		{name: "the data folder, another spelling", args: []string{"--storage=DIR/wh/../data/."}, want: "the data folder"},
		{name: "the data folder, by a link", links: map[string]string{"link": "data"}, args: []string{"--storage=DIR/link"}, want: "the data folder"},
		{name: "around it, by a link", links: map[string]string{"wh/up": ".."}, args: []string{"--storage=DIR/wh/up"}, want: "the data folder"},
		{name: "the default leads out and back", links: map[string]string{"data/warehouse": "."}, want: "the data folder"},
		{name: "the data folder is a link into it", links: map[string]string{"d": "wh/d"}, args: []string{"--data=DIR/d", "--storage=DIR/wh"}, want: "the data folder"},
		{name: "an allowed location around it", args: []string{"--storage=DIR/wh", "--warehouse-allowed-locations=file://DIR"}, want: "warehouse.allowed-locations"},
		{name: "the lock", args: []string{"--storage=DIR/data/lock"}, want: "the lock"},
		{name: "the database", args: []string{"--storage=DIR/wh", "--database=sqlite:DIR/wh/db/lethe.db"}, want: "the database"},
		{name: "the database, by a link", links: map[string]string{"db": "wh/db"}, args: []string{"--storage=DIR/wh", "--database=sqlite:DIR/db/lethe.db"}, want: "the database"},
		{name: "its log", args: []string{"--storage=DIR/data/lethe.db-wal"}, want: "the database"},
		{name: "the token", args: []string{"--storage=DIR/wh", "--admin-token-file=DIR/wh/token"}, want: "the admin token"},
		{name: "the token leads in", links: map[string]string{"token": "wh/new/token"}, args: []string{"--storage=DIR/wh", "--admin-token-file=DIR/token"}, want: "the admin token"},
		{name: "the token leads out", links: map[string]string{"wh/token": "../etc/token"}, args: []string{"--storage=DIR/wh", "--admin-token-file=DIR/wh/token"}, want: "the admin token"},
		{name: "the certificate", args: []string{"--storage=DIR/wh", "--tls-cert-file=DIR/wh/c.pem", "--tls-key-file=DIR/etc/k.pem"}, want: "the certificate"},
		{name: "its key", args: []string{"--storage=DIR/wh", "--tls-cert-file=DIR/etc/c.pem", "--tls-key-file=DIR/wh/k.pem"}, want: "the certificate's key"},
		{name: "the configuration", args: []string{"--storage=DIR/etc", "--config=DIR/etc/lethe.yaml"}, want: "the configuration"},
		{name: "a link without end", links: map[string]string{"loop": "loop"}, args: []string{"--storage=DIR/loop"}, want: "links"},

		{name: "one root in the other", args: []string{"--storage=DIR/wh", "--warehouse-allowed-locations=file://DIR/wh/t"}, want: "overlap"},
		{name: "one root twice", args: []string{"--storage=DIR/wh", "--warehouse-allowed-locations=file://DIR/other,file://DIR/other"}, want: "overlap"},
		{name: "one root by a link", links: map[string]string{"link": "wh"}, args: []string{"--storage=DIR/wh", "--warehouse-allowed-locations=file://DIR/link"}, want: "overlap"},
		{name: "a part of it by a link", links: map[string]string{"link": "wh/t"}, args: []string{"--storage=DIR/wh", "--warehouse-allowed-locations=file://DIR/link"}, want: "overlap"},
		{name: "around it by a link", links: map[string]string{"other/link": "../wh"}, args: []string{"--storage=DIR/other/link/deep", "--warehouse-allowed-locations=file://DIR/wh"}, want: "overlap"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, name := range []string{"data", "wh", "other", "etc"} {
				if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, "etc", "lethe.yaml"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for name, target := range tt.links {
				if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			args := []string{"--data=" + filepath.Join(dir, "data")}
			for _, arg := range tt.args {
				args = append(args, strings.ReplaceAll(arg, "DIR", dir))
			}
			_, err := load(t, nil, args...)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}
