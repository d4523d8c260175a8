package client_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/client"
)

// TestCatalogCalls holds each call to the request of the Iceberg specification.
func TestCatalogCalls(t *testing.T) {
	t.Parallel()
	from := client.Identifier{Namespace: client.Namespace{"a.b", "c"}, Name: "t/1"}
	to := client.Identifier{Namespace: client.Namespace{"d"}, Name: "u"}
	const found = `{"metadata-location":"file:///x/m.json","metadata":{"format-version":2}}`
	type info struct{ Location, Metadata string }
	tests := []struct {
		name   string
		call   func(context.Context, client.Warehouse) (any, error)
		answer string
		want   any
		line   string // method and path
		body   string
		keyed  bool
	}{
		{
			"register", func(ctx context.Context, w client.Warehouse) (any, error) {
				got, err := w.RegisterTable(ctx, from, "file:///x/m.json", client.RegisterOptions{})
				return info{got.MetadataLocation, string(got.Metadata)}, err
			},
			found,
			info{"file:///x/m.json", `{"format-version":2}`},
			"POST /iceberg/v1/w/namespaces/a.b%1Fc/register",
			`{"metadata-location":"file:///x/m.json","name":"t/1"}`, true,
		},
		{
			"register with overwrite", func(ctx context.Context, w client.Warehouse) (any, error) {
				_, err := w.RegisterTable(ctx, to, "file:///x/m.json", client.RegisterOptions{Overwrite: true})
				return nil, err
			},
			found, nil, "POST /iceberg/v1/w/namespaces/d/register",
			`{"metadata-location":"file:///x/m.json","name":"u","overwrite":true}`, true,
		},
		{
			"unregister", func(ctx context.Context, w client.Warehouse) (any, error) {
				got, err := w.UnregisterTable(ctx, from)
				return info{got.MetadataLocation, string(got.Metadata)}, err
			},
			found,
			info{"file:///x/m.json", `{"format-version":2}`},
			"POST /iceberg/v1/w/namespaces/a.b%1Fc/tables/t%2F1/unregister", "", true,
		},
		{
			"rename table", func(ctx context.Context, w client.Warehouse) (any, error) { return nil, w.RenameTable(ctx, from, to) },
			"", nil, "POST /iceberg/v1/w/tables/rename",
			`{"destination":{"namespace":["d"],"name":"u"},"source":{"namespace":["a.b","c"],"name":"t/1"}}`, true,
		},
		{
			"rename view", func(ctx context.Context, w client.Warehouse) (any, error) { return nil, w.RenameView(ctx, to, from) },
			"", nil, "POST /iceberg/v1/w/views/rename",
			`{"destination":{"namespace":["a.b","c"],"name":"t/1"},"source":{"namespace":["d"],"name":"u"}}`, true,
		},
		{
			"view", func(ctx context.Context, w client.Warehouse) (any, error) {
				got, err := w.View(ctx, from)
				return info{got.MetadataLocation, string(got.Metadata)}, err
			},
			found,
			info{"file:///x/m.json", `{"format-version":2}`},
			"GET /iceberg/v1/w/namespaces/a.b%1Fc/views/t%2F1", "", false,
		},
		{
			"views", func(ctx context.Context, w client.Warehouse) (any, error) {
				var names []string
				for id, err := range w.Views(ctx, to.Namespace) {
					if err != nil {
						return nil, err
					}
					names = append(names, id.String())
				}
				return names, nil
			},
			`{"identifiers":[{"namespace":["d"],"name":"u"}],"next-page-token":null}`,
			[]string{"d.u"},
			"GET /iceberg/v1/w/namespaces/d/views?pageToken=", "", false,
		},
		{
			"drop view", func(ctx context.Context, w client.Warehouse) (any, error) {
				return w.DropView(ctx, to, client.DropOptions{Purge: true})
			},
			"",
			client.Dropped{Job: "purge-7", State: client.Succeeded},
			"DELETE /iceberg/v1/w/namespaces/d/views/u?purgeRequested=true", "", true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var line, body, key string
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				line, body, key = r.Method+" "+r.RequestURI, string(raw), r.Header.Get("Idempotency-Key")
				w.Header().Set("X-Lethe-Job", "purge-7")
				w.Header().Set("X-Lethe-Job-State", "SUCCEEDED")
				_, _ = io.WriteString(w, tt.answer)
			}))
			defer srv.Close()
			defer srv.Client().CloseIdleConnections()
			c, err := client.New(client.Options{URI: srv.URL, HTTPClient: srv.Client()})
			if err != nil {
				t.Fatal(err)
			}
			got, err := tt.call(t.Context(), c.Warehouse("w"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if line != tt.line || body != tt.body || (key != "") != tt.keyed {
				t.Errorf("asked %s %s with key %q, want %s %s", line, body, key, tt.line, tt.body)
			}
		})
	}
}

func TestCodeOf(t *testing.T) {
	t.Parallel()
	if got := client.CodeOf(&client.Error{Status: 404, Code: "NoSuchViewException"}); got != "NoSuchViewException" {
		t.Errorf("code %q", got)
	}
	if got := client.CodeOf(io.EOF); got != "" {
		t.Errorf("code %q of another error", got)
	}
}
