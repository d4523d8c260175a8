package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// listing is the list of a large directory, page by page, by one client.
type listing struct {
	Entries int    `json:"entries"`
	Pages   int    `json:"pages"`
	Seconds spread `json:"seconds"`
	Page    spread `json:"page_milliseconds"`
}

func (l *listing) text(w io.Writer) {
	fmt.Fprintf(w, "\nlist of %d entries in %d pages\n  all        %s\n  a page     %s\n", l.Entries, l.Pages, l.Seconds.rangeText("s"), l.Page.text("ms"))
}

// renames are those of two directories, in random order, to another parent and back.
type renames struct {
	Few      int     `json:"few_entries"`
	Many     int     `json:"many_entries"`
	FewTook  spread  `json:"few_milliseconds"`
	ManyTook spread  `json:"many_milliseconds"`
	Ratio    float64 `json:"median_ratio"`
}

func (r *renames) text(w io.Writer) {
	fmt.Fprintf(w, "\nrename of a directory\n  %8d entries  %s\n  %8d entries  %s\n  median ratio %.2f\n",
		r.Few, r.FewTook.text("ms"), r.Many, r.ManyTook.text("ms"), r.Ratio)
}

// largeDirectory lists and renames a large directory.
func (b *bench) largeDirectory(ctx context.Context, sizes driveSizes, r *driveReport) (err error) {
	p, err := b.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	b.note("filling a directory of %d entries", sizes.Entries)
	err = p.filled(ctx, map[string]shape{"few": {Name: "few", Files: sizes.Few}, "many": {Name: "many", Files: sizes.Entries}})
	if err != nil {
		return err
	}
	if sizes.does("list") {
		b.note("list")
		if r.List, err = p.listAll(ctx, "many", sizes); err != nil {
			return err
		}
	}
	if sizes.does("rename") {
		b.note("rename")
		if r.Rename, err = p.renameBoth(ctx, sizes); err != nil {
			return err
		}
		r.Checks = append(r.Checks, atMost(fmt.Sprintf("median of renames, %d entries to %d", sizes.Entries, sizes.Few), r.Rename.Ratio, 1.5))
	}
	return b.driveDurability(ctx, p, r)
}

func (e *endpoint) listAll(ctx context.Context, dir string, sizes driveSizes) (*listing, error) {
	l := &listing{Entries: sizes.Entries}
	var whole, pages []float64
	for range sizes.Runs {
		began, seen := time.Now(), 0
		l.Pages = 0
		for cursor := ""; ; {
			var page struct {
				Entries    []struct{ Name string }
				NextCursor string
			}
			query := url.Values{"list": {""}, "limit": {strconv.Itoa(sizes.Page)}}
			if cursor != "" {
				query.Set("cursor", cursor)
			}
			sent := time.Now()
			err := e.transfer(ctx, http.MethodGet, fsPath+dir+"?"+query.Encode(), "", nil, 0, func(body io.Reader) error {
				return json.NewDecoder(body).Decode(&page)
			})
			if err != nil {
				return nil, err
			}
			pages = append(pages, millis(time.Since(sent)))
			l.Pages++
			seen += len(page.Entries)
			if cursor = page.NextCursor; cursor == "" {
				break
			}
		}
		if seen != sizes.Entries {
			return nil, fmt.Errorf("%d entries were listed, want %d", seen, sizes.Entries)
		}
		whole = append(whole, time.Since(began).Seconds())
	}
	l.Seconds, l.Page = spreadOf(whole), spreadOf(pages)
	return l, nil
}

func (e *endpoint) renameBoth(ctx context.Context, sizes driveSizes) (*renames, error) {
	if err := e.mkdir(ctx, "elsewhere"); err != nil {
		return nil, err
	}
	took := map[string][]float64{}
	for i := range 2 * (sizes.Renames/2 + 1) { // the first of each way are not counted
		pair := []string{"few", "many"}
		rand.Shuffle(2, func(i, j int) { pair[i], pair[j] = pair[j], pair[i] })
		for _, name := range pair {
			from, to := name, "elsewhere/"+name
			if i%2 == 1 {
				from, to = to, from
			}
			body := fmt.Sprintf(`{"to":"/%s"}`, to)
			began := time.Now()
			if err := e.transfer(ctx, http.MethodPost, fsPath+from+"?op=rename", jsonType, strings.NewReader(body), int64(len(body)), dropped); err != nil {
				return nil, err
			}
			if i >= 2 {
				took[name] = append(took[name], millis(time.Since(began)))
			}
		}
	}
	r := &renames{Few: sizes.Few, Many: sizes.Entries, FewTook: spreadOf(took["few"]), ManyTook: spreadOf(took["many"])}
	r.Ratio = ratio(r.ManyTook.P50, r.FewTook.P50)
	return r, nil
}

// stream is one large file, written and read by one client.
type stream struct {
	Bytes int64  `json:"bytes"`
	Up    spread `json:"up_mib_per_second"` // one figure a run
	Down  spread `json:"down_mib_per_second"`
	Small spread `json:"small_peak_mib"` // VmHWM of a fresh server after 16 MiB up and down
	Peak  spread `json:"peak_mib"`       // and then after the large file
}

func (s *stream) text(w io.Writer) {
	fmt.Fprintf(w, "\na file of %d bytes\n  up         %s\n  down       %s\n  VmHWM      %s\n  after 16 MiB only  %s\n",
		s.Bytes, s.Up.rangeText("MiB/s"), s.Down.rangeText("MiB/s"), s.Peak.rangeText("MiB"), s.Small.rangeText("MiB"))
}

// streams sends a large file up and down, each run on a fresh server.
func (b *bench) streams(ctx context.Context, sizes driveSizes, r *driveReport) error {
	var up, down, small, peak []float64
	for run := range sizes.Runs {
		b.note("stream, run %d of %d", run+1, sizes.Runs)
		f, err := b.streamOnce(ctx, sizes.Bytes, r)
		if err != nil {
			return err
		}
		up, down, small, peak = append(up, f.up), append(down, f.down), append(small, f.small), append(peak, f.peak)
	}
	s := &stream{Bytes: sizes.Bytes, Up: spreadOf(up), Down: spreadOf(down), Small: spreadOf(small), Peak: spreadOf(peak)}
	r.Stream = s
	r.Checks = append(r.Checks, atMost("VmHWM, the large file to 16 MiB", ratio(s.Peak.P50, s.Small.P50), 1.2))
	return nil
}

type streamed struct{ up, down, small, peak float64 }

func (b *bench) streamOnce(ctx context.Context, bytes int64, r *driveReport) (f streamed, err error) {
	p, err := b.start(ctx)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if _, _, err := p.upAndDown(ctx, "small", smallMiB); err != nil {
		return f, err
	}
	if f.small, err = p.peak(); err != nil {
		return f, err
	}
	if f.up, f.down, err = p.upAndDown(ctx, "large", bytes); err != nil {
		return f, err
	}
	if f.peak, err = p.peak(); err != nil {
		return f, err
	}
	return f, b.driveDurability(ctx, p, r)
}

// upAndDown returns the rates in MiB/s.
func (e *endpoint) upAndDown(ctx context.Context, name string, n int64) (up, down float64, err error) {
	rate := func(began time.Time) float64 { return float64(n) / (1 << 20) / time.Since(began).Seconds() }
	began := time.Now()
	if err := e.transfer(ctx, http.MethodPut, fsPath+name, plainType, io.LimitReader(&patterned{}, n), n, dropped); err != nil {
		return 0, 0, err
	}
	up = rate(began)
	began = time.Now()
	var got int64
	err = e.transfer(ctx, http.MethodGet, fsPath+name, "", nil, 0, func(body io.Reader) (err error) {
		got, err = io.Copy(io.Discard, body)
		return err
	})
	if err == nil && got != n {
		err = fmt.Errorf("%d of %d bytes came back", got, n)
	}
	return up, rate(began), err
}

// patterned is bytes without end that cost next to nothing to make.
type patterned struct{ at byte }

func (p *patterned) Read(to []byte) (int, error) {
	for i := range to {
		to[i] = p.at
		p.at++
	}
	return len(to), nil
}
