package client_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/lethe-project/lethe/client"
)

// server stands in for a Lethe server.
func server() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("DELETE /iceberg/v1/default/namespaces/shop/tables/orders", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Lethe-Job", "purge-42")
		w.Header().Set("X-Lethe-Job-State", "PENDING")
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /v1/jobs/purge-42", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"job":"purge-42","state":"SUCCEEDED","progress":{"files":1200}}`)
	})
	mux.HandleFunc("GET /v1/jobs", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"jobs":[{"job":"purge-41","state":"FAILED","lastError":"access denied"}]}`)
	})
	return httptest.NewServer(mux)
}

// Drop a table and its files, and wait until the last of them is gone.
func ExampleWarehouse_DropTable() {
	srv := server()
	defer srv.Close()
	c, err := client.New(client.Options{URI: srv.URL, Token: "secret", HTTPClient: srv.Client()})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	orders := client.Identifier{Namespace: client.Namespace{"shop"}, Name: "orders"}
	dropped, err := c.Warehouse("default").DropTable(ctx, orders, client.DropOptions{Purge: true, Async: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(dropped.Job, dropped.State)
	job, err := c.Jobs().Wait(ctx, dropped.Job, client.WaitOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.State, job.Counts().Files, "files")
	// Output:
	// purge-42 PENDING
	// SUCCEEDED 1200 files
}

// Look for deletes that need somebody.
func ExampleJobs_List() {
	srv := server()
	defer srv.Close()
	c, err := client.New(client.Options{URI: srv.URL, HTTPClient: srv.Client()})
	if err != nil {
		log.Fatal(err)
	}
	for job, err := range c.Jobs().List(context.Background(), client.JobFilter{State: client.Failed}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(job.Job, job.LastError)
	}
	// Output: purge-41 access denied
}
