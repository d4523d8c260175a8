package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/client"
)

// TestWarehouseCalls holds each call to the API of the server.
func TestWarehouseCalls(t *testing.T) {
	t.Parallel()
	const found = `{"name":"lake","storage":{"type":"s3","url":"s3://lake"},"credentials":{"type":"static","accessKeyId":"…0001"},
		"tableDefaults":{"a":"b"},"tableOverrides":{},"createdAt":"2026-03-01T12:00:00Z","updatedAt":"2026-03-01T12:00:00Z","version":2}`
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	info := client.WarehouseInfo{
		Name: "lake", Storage: client.WarehouseStorage{Type: "s3", URL: "s3://lake"},
		Credentials:   client.ShownCredentials{Type: client.CredentialsStatic, AccessKeyID: "…0001"},
		TableDefaults: map[string]string{"a": "b"}, TableOverrides: map[string]string{}, CreatedAt: at, UpdatedAt: at, Version: 2,
	}
	key := &client.StorageCredentials{Type: client.CredentialsStatic, AccessKeyID: "AKIA", SecretAccessKey: "geheim"}
	region, none := "eu", map[string]string{}
	tests := []struct {
		name       string
		call       func(context.Context, client.Warehouses) (any, error)
		answer     string
		want       any
		line, body string
	}{
		{
			"list", func(ctx context.Context, w client.Warehouses) (any, error) {
				var names []string
				for info, err := range w.List(ctx) {
					if err != nil {
						return nil, err
					}
					names = append(names, info.Name)
				}
				return names, nil
			},
			`{"warehouses":[` + found + `],"nextPageToken":null}`,
			[]string{"lake"},
			"GET /v1/warehouses", "",
		},
		{
			"get", func(ctx context.Context, w client.Warehouses) (any, error) { return w.Get(ctx, "a b") },
			found, info, "GET /v1/warehouses/a%20b", "",
		},
		{
			"create", func(ctx context.Context, w client.Warehouses) (any, error) {
				return w.Create(ctx, client.NewWarehouse{Name: "lake", Storage: client.WarehouseStorage{URL: "s3://lake"}, Credentials: key})
			},
			found, info, "POST /v1/warehouses",
			`{"name":"lake","storage":{"url":"s3://lake"},"credentials":{"type":"static","accessKeyId":"AKIA","secretAccessKey":"geheim"}}`,
		},
		{
			"update", func(ctx context.Context, w client.Warehouses) (any, error) {
				return w.Update(ctx, "lake", client.WarehouseChange{Storage: &client.StorageChange{Region: &region}, TableDefaults: &none})
			},
			found, info, "PATCH /v1/warehouses/lake", `{"storage":{"region":"eu"},"tableDefaults":{}}`,
		},
		{
			"drop", func(ctx context.Context, w client.Warehouses) (any, error) { return nil, w.Drop(ctx, "lake") },
			"", nil, "DELETE /v1/warehouses/lake", "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var line, body string
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				line, body = r.Method+" "+r.RequestURI, string(raw)
				_, _ = io.WriteString(w, tt.answer)
			}))
			defer srv.Close()
			defer srv.Client().CloseIdleConnections()
			c, err := client.New(client.Options{URI: srv.URL, HTTPClient: srv.Client()})
			if err != nil {
				t.Fatal(err)
			}
			got, err := tt.call(t.Context(), c.Warehouses())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if line != tt.line || body != tt.body {
				t.Errorf("asked %s %s, want %s %s", line, body, tt.line, tt.body)
			}
		})
	}
}

func TestCredentialsDoNotShow(t *testing.T) {
	t.Parallel()
	c := client.StorageCredentials{Type: client.CredentialsStatic, AccessKeyID: "AKIA", SecretAccessKey: "geheim"}
	if shown := fmt.Sprintf("%v %+v %#v %s %v", c, c, c, &c, client.NewWarehouse{Credentials: &c}); strings.Contains(shown, "geheim") {
		t.Errorf("shown as %s", shown)
	}
}
