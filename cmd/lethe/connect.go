package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/lethe-project/lethe/client"
)

const tokenVariable = "LETHE_TOKEN" //nolint:gosec // the name, not the token

// remote are the flags of every command that speaks to a server.
type remote struct {
	URI  string `name:"uri" env:"LETHE_URI" help:"The server, such as http://127.0.0.1:8181. Without it, the one that runs on the data folder." placeholder:"URL"`
	Data string `name:"data" env:"LETHE_DATA" default:"./lethe-data" help:"Data folder of a server on this machine, which tells its address and token." placeholder:"DIR"`
	JSON bool   `name:"json" help:"Print JSON: one object a line."`
}

// connect finds the server and its token. The data folder's token goes to the server
// of that folder only, whatever else the command line names.
func (r *remote) connect() (*client.Client, error) {
	address, err := r.read("address")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if address != "" && !strings.Contains(address, "://") {
		address = "http://" + address
	}
	uri := r.URI
	if uri == "" {
		if address == "" {
			return nil, hintError{
				fmt.Errorf("no server runs on the data folder %s", r.Data),
				"Start one with lethe serve, or name one with --uri or LETHE_URI.",
			}
		}
		uri = address
	}
	token := os.Getenv(tokenVariable)
	local := strings.TrimSuffix(strings.TrimRight(uri, "/"), "/iceberg") == strings.TrimRight(address, "/")
	if token == "" && local {
		// Without the file the server may be open, or have its token from elsewhere: it will say.
		if token, err = r.read("admin-token"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, hintError{err, "Run as the user of the server, or set " + tokenVariable + "."}
		}
	}
	c, err := client.New(client.Options{URI: uri, Token: token, UserAgent: "lethe/" + version, HTTPClient: keeping()})
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// keeping is an HTTP client that keeps a connection for each file under way: the default
// one keeps two, and would make a new one for nearly every small file.
func keeping() *http.Client {
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultClient
	}
	transport = transport.Clone()
	transport.MaxIdleConnsPerHost = maxParallel
	transport.MaxIdleConns = maxParallel
	return &http.Client{Transport: transport}
}

func (r *remote) read(name string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(r.Data, name))
	return strings.TrimSpace(string(raw)), err
}

// inWarehouse are the flags of commands on one warehouse.
type inWarehouse struct {
	remote
	Warehouse string `name:"warehouse" env:"LETHE_WAREHOUSE" default:"default" help:"Warehouse of the server." placeholder:"NAME"`
}

// flag names the warehouse to a command that a hint shows, where it must be named.
func (w *inWarehouse) flag() string {
	if w.Warehouse == "default" {
		return ""
	}
	return " --warehouse " + shell(w.Warehouse)
}

func (w *inWarehouse) open() (client.Warehouse, *client.Client, error) {
	c, err := w.connect()
	if err != nil {
		return client.Warehouse{}, nil, err
	}
	return c.Warehouse(w.Warehouse), c, nil
}

// namespaceArg reads a namespace from the command line.
func namespaceArg(text string) (client.Namespace, error) {
	ns, err := client.ParseNamespace(text)
	if err != nil {
		return nil, usageError{err}
	}
	return ns, nil
}

// identifierArg reads a table or view from the command line.
func identifierArg(text string) (client.Identifier, error) {
	id, err := client.ParseIdentifier(text)
	if err != nil {
		return client.Identifier{}, usageError{err}
	}
	return id, nil
}
