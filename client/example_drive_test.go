package client_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/lethe-project/lethe/client"
)

// drive stands in for a server's drive.
func drive() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /v1/fs/notes/a.txt", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"name":"a.txt","path":"/notes/a.txt","type":"file","size":5,"etag":"\"7-1\""}`)
	})
	mux.HandleFunc("GET /v1/fs/notes/a.txt", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Etag", `"7-1"`)
		_, _ = io.WriteString(w, "hello")
	})
	mux.HandleFunc("GET /v1/fs/notes", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("stat") {
			_, _ = io.WriteString(w, `{"name":"notes","path":"/notes","type":"directory","inode":6,"etag":"\"6\""}`)
			return
		}
		_, _ = io.WriteString(w, `{"entries":[{"name":"a.txt","type":"file","size":5}],"nextCursor":null}`)
	})
	mux.HandleFunc("DELETE /v1/fs/notes", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"path":"/notes","inode":6,"job":"delete-9","state":"RUNNING"}`)
	})
	mux.HandleFunc("GET /v1/jobs/delete-9", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"job":"delete-9","state":"SUCCEEDED","progress":{"files":120000,"directories":40}}`)
	})
	mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "id: 8\nevent: create\ndata: {\"kind\":\"create\",\"path\":\"/notes/b.txt\"}\n\n")
	})
	return httptest.NewServer(mux)
}

func connect(srv *httptest.Server) client.Drive {
	c, err := client.New(client.Options{URI: srv.URL, Token: "secret", HTTPClient: srv.Client()})
	if err != nil {
		log.Fatal(err)
	}
	return c.Drive()
}

// Write a file, list its directory, and read it.
func ExampleDrive_Put() {
	srv := drive()
	defer srv.Close()
	d, ctx := connect(srv), context.Background()
	e, err := d.Put(ctx, "/notes/a.txt", strings.NewReader("hello"), client.PutOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.Path, e.Size)
	for e, err := range d.List(ctx, "/notes") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Name)
	}
	f, err := d.Get(ctx, "/notes/a.txt", client.GetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	_, _ = io.Copy(os.Stdout, f)
	// Output:
	// /notes/a.txt 5
	// a.txt
	// hello
}

// Delete a tree and wait until its space is free.
func ExampleDrive_RemoveAll() {
	srv := drive()
	defer srv.Close()
	removed, err := connect(srv).RemoveAll(context.Background(), "/notes", client.RemoveAllOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(removed.Job, removed.State, removed.Files, "files")
	// Output: delete-9 SUCCEEDED 120000 files
}

// Follow what happens, and keep the ID to go on after.
func ExampleDrive_Events() {
	srv := drive()
	defer srv.Close()
	for e, err := range connect(srv).Events(context.Background(), client.EventOptions{After: 7}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.ID, e.Kind, e.Path)
		break
	}
	// Output: 8 create /notes/b.txt
}
