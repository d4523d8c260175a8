package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// driveSizes of the benchmark.
type driveSizes struct {
	Creates  int    `default:"2000" help:"Small files that are made in a run, by each number of clients in each place."`
	Reads    int    `default:"4000" help:"Reads, and as many stats, of a run."`
	Clients  []int  `default:"1,8,32" help:"Clients at once."`
	Dirs     int    `default:"64" help:"Directories that many stands for."`
	Runs     int    `default:"3" help:"Runs; each does everything in turn."`
	Entries  int    `default:"100000" help:"Entries of the directory that is listed and renamed."`
	Page     int    `default:"1000" help:"Entries of a page."`
	Few      int    `default:"10" help:"Entries of the small directory that is renamed."`
	Renames  int    `default:"200" help:"Renames of each."`
	Bytes    int64  `default:"1073741824" help:"Bytes of the file that is streamed."`
	Profiles string `placeholder:"DIR" help:"Keep a CPU profile of creates there."`
	Part     string `default:"all" enum:"all,creates,reads,list,rename,stream,statements,cpu" help:"all, creates, reads, list, rename, stream, statements or cpu."`
}

func (s driveSizes) of(quick bool) driveSizes {
	if quick {
		return driveSizes{
			Creates: 20, Reads: 20, Clients: []int{1, 4}, Dirs: 4, Runs: 1, Entries: 50, Page: 20, Few: 3, Renames: 3, Bytes: 1 << 20,
			Profiles: s.Profiles, Part: s.Part,
		}
	}
	return s
}

func (s driveSizes) does(parts ...string) bool {
	for _, part := range parts {
		if s.Part == "all" || s.Part == part {
			return true
		}
	}
	return false
}

type driveReport struct {
	Environment environment       `json:"environment"`
	Durability  string            `json:"durability"`
	Statements  []statements      `json:"statements"`
	Operations  []operation       `json:"operations"`
	List        *listing          `json:"list,omitempty"`
	Rename      *renames          `json:"rename,omitempty"`
	Stream      *stream           `json:"stream,omitempty"`
	CPU         *operationProfile `json:"cpu,omitempty"`
	Checks      []check           `json:"checks"`
}

const (
	smallBody = 100                        // bytes of a small file: it stands in its row
	jsonType  = "application/json"         // of a request
	plainType = "application/octet-stream" // of a file
	fsPath    = "/v1/fs/"                  // below it stand files by their paths
	smallMiB  = 16 << 20                   // streamed before the large file, to compare the memory with
)

func (b *bench) drive(ctx context.Context, sizes driveSizes) (*driveReport, error) {
	r := &driveReport{Environment: b.environment()}
	if sizes.does("statements") {
		if err := b.driveStatements(ctx, r); err != nil {
			return nil, fmt.Errorf("statements: %w", err)
		}
	}
	if sizes.does("creates", "reads") {
		if err := b.smallFiles(ctx, sizes, r); err != nil {
			return nil, fmt.Errorf("small files: %w", err)
		}
	}
	if sizes.does("list", "rename") {
		if err := b.largeDirectory(ctx, sizes, r); err != nil {
			return nil, fmt.Errorf("large directory: %w", err)
		}
	}
	if sizes.does("stream") {
		if err := b.streams(ctx, sizes, r); err != nil {
			return nil, fmt.Errorf("stream: %w", err)
		}
	}
	if sizes.does("cpu") {
		if err := b.createProfile(ctx, sizes, r); err != nil {
			return nil, fmt.Errorf("profile: %w", err)
		}
	}
	return r, nil
}

// transfer sends a body, of n bytes, and hands the answer's to take. It fails unless the
// answer is a success.
func (e *endpoint) transfer(ctx context.Context, method, path, kind string, body io.Reader, n int64, take func(io.Reader) error) (err error) {
	if n == 0 {
		body = http.NoBody
	}
	req, err := http.NewRequestWithContext(ctx, method, e.uri+path, body)
	if err != nil {
		return err
	}
	req.ContentLength = n
	req.Header.Set("Authorization", "Bearer "+e.token)
	if n > 0 {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := e.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 2000))
		return &refusal{status: resp.StatusCode, text: fmt.Sprintf("%s %s: %s: %s", method, path, resp.Status, text)}
	}
	if err := take(resp.Body); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body) // so that the connection is used again
	return err
}

// dropped reads nothing of an answer but its end.
func dropped(io.Reader) error { return nil }

func (r *driveReport) text(w io.Writer) {
	r.Environment.text(w)
	fmt.Fprintln(w, r.Durability)
	if len(r.Statements) > 0 {
		fmt.Fprintln(w, "\nSQL statements, BEGIN and COMMIT left out")
	}
	for _, s := range r.Statements {
		fmt.Fprintf(w, "  %-44s %d\n", s.Operation, s.Statements)
	}
	if len(r.Operations) > 0 {
		fmt.Fprintf(w, "\nfiles of %d bytes\n", smallBody)
	}
	for _, op := range r.Operations {
		fmt.Fprintf(w, "  %-34s %2d clients  %8.4g/s  (%.4g to %.4g, %.2f of bare)  %s\n", op.Name, op.Connections,
			op.PerSecond.P50, op.PerSecond.Min, op.PerSecond.Max, op.Ratio.P50, op.Milliseconds.text("ms"))
	}
	if r.List != nil {
		r.List.text(w)
	}
	if r.Rename != nil {
		r.Rename.text(w)
	}
	if r.Stream != nil {
		r.Stream.text(w)
	}
	if r.CPU != nil {
		r.CPU.text(w)
	}
	checksText(w, r.Checks)
}
