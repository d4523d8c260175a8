package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

// storeReport is purges on a store across a network, or what stands for one.
type storeReport struct {
	Environment environment `json:"environment"`
	Rates       []storeRate `json:"rates"`
	Resume      *resume     `json:"resume,omitempty"`
	Leaks       []leak      `json:"leaks"`
	Checks      []check     `json:"checks"`
}

// storeRate is purges of equal tables by a fresh server each.
type storeRate struct {
	Files     int     `json:"files"`
	LatencyMS int     `json:"latency_ms"`                   // of a DeleteObjects
	Bound     float64 `json:"bound_files_per_second"`       // delete threads × batch / latency; 0: none
	Whole     spread  `json:"files_per_second"`             // from the request to its answer
	Data      spread  `json:"data_files_per_second"`        // while data files went, as the store saw it
	OfBound   float64 `json:"data_of_bound"`                // medians
	WholeOf   float64 `json:"whole_of_bound"`               // medians
	Requests  float64 `json:"requests_per_1000_files"`      // DeleteObjects of all levels
	DataOnly  float64 `json:"data_requests_per_1000_files"` // those of data files
	CPUMicros spread  `json:"cpu_us_per_file"`              // of the server
	StubCPU   spread  `json:"stub_cpu_us_per_file"`         // of the stub, while the server worked
	Idle      spread  `json:"idle_mib"`                     // VmHWM before
	Peak      spread  `json:"peak_mib"`                     // and after
}

func (b *bench) purgeOn(ctx context.Context, sizes purgeSizes) (report, error) {
	r := &storeReport{Environment: b.environment()}
	r.Environment.Store = "stub"
	var err error
	if sizes.Store == "s3" {
		r.Environment.Store = "s3"
		sizes.Latency = []int{0} // its own
	}
	if sizes.does("rates") {
		if r.Rates, err = b.storeRates(ctx, sizes); err != nil {
			return nil, fmt.Errorf("rates: %w", err)
		}
		r.Checks = append(r.Checks, ratesChecks(r.Rates)...)
	}
	if sizes.Store == "s3" {
		return r, nil
	}
	if sizes.does("resume") {
		if r.Resume, err = b.resume(ctx, sizes); err != nil {
			return nil, fmt.Errorf("resume: %w", err)
		}
		r.Checks = append(r.Checks, atMost("deletes sent again after kill -9, %", r.Resume.Percent, 2))
	}
	if sizes.does("leak") {
		if r.Leaks, err = b.leaks(ctx, sizes); err != nil {
			return nil, fmt.Errorf("leak: %w", err)
		}
		for _, l := range r.Leaks {
			r.Checks = append(r.Checks, atMost(fmt.Sprintf("files and objects left, %d %% of deletes failing", l.Percent), float64(l.Leaked+int64(l.Objects)), 0))
		}
	}
	return r, nil
}

func ratesChecks(rates []storeRate) (checks []check) {
	for _, r := range rates {
		name := fmt.Sprintf("%d files, %d ms: ", r.Files, r.LatencyMS)
		if r.LatencyMS >= 20 {
			checks = append(checks, atLeast(name+"data files/s to the bound", r.OfBound, 0.8))
		}
		if r.DataOnly > 0 {
			checks = append(checks, atMost(name+"requests per 1,000 data files", r.DataOnly, 1.02))
		}
		checks = append(checks, atMost(name+"VmHWM, MiB", r.Peak.Max, 200))
	}
	return checks
}

func (b *bench) storeRates(ctx context.Context, sizes purgeSizes) ([]storeRate, error) {
	var rates []storeRate
	for _, latency := range sizes.Latency {
		for _, files := range sizes.Files {
			rate := storeRate{Files: files, LatencyMS: latency}
			var whole, data, cpu, stub, idle, peak []float64
			for run := range sizes.Runs {
				b.note("%s, %d files, %d ms, run %d of %d", sizes.Store, files, latency, run+1, sizes.Runs)
				one, err := b.storePurge(ctx, sizes, files, latency)
				if err != nil {
					return nil, err
				}
				whole, cpu = append(whole, float64(files)/one.seconds), append(cpu, one.cpu.Seconds()*1e6/float64(files))
				stub, idle, peak = append(stub, one.stub.Seconds()*1e6/float64(files)), append(idle, one.idle), append(peak, one.peak)
				if one.seen.DataSeconds > 0 {
					data = append(data, float64(files)/one.seen.DataSeconds)
				}
				rate.Requests = float64(one.seen.Requests) * 1000 / float64(files)
				rate.DataOnly = float64(one.seen.DataRequests) * 1000 / float64(files)
			}
			rate.Whole, rate.Data, rate.CPUMicros, rate.StubCPU = spreadOf(whole), spreadOf(data), spreadOf(cpu), spreadOf(stub)
			rate.Idle, rate.Peak = spreadOf(idle), spreadOf(peak)
			if latency > 0 {
				rate.Bound = float64(sizes.Threads) * batch / (float64(latency) / 1000)
			}
			rate.OfBound, rate.WholeOf = ratio(rate.Data.P50, rate.Bound), ratio(rate.Whole.P50, rate.Bound)
			rates = append(rates, rate)
		}
	}
	return rates, nil
}

// storeRun is one purge.
type storeRun struct {
	seconds    float64
	cpu, stub  time.Duration
	idle, peak float64
	seen       storeStats
}

// storePurge drops a table synchronously on a fresh server and a fresh store. A stub has
// no data files; a real store gets them first.
func (b *bench) storePurge(ctx context.Context, sizes purgeSizes, files, latency int) (one storeRun, err error) {
	s, err := b.storeOf(ctx, sizes, "--delete-delay", (time.Duration(latency) * time.Millisecond).String())
	if err != nil {
		return one, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	p, err := b.startOn(ctx, s, "--async-purge-delete-threads", strconv.Itoa(sizes.Threads), "--async-purge-purge-wait-ms", "600000")
	if err != nil {
		return one, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := p.createNamespace(ctx); err != nil {
		return one, err
	}
	table := purgetest.Synthetic{Files: files, PerManifest: 5000}
	if sizes.Store == "s3" {
		if err := p.put(ctx, table, "t"); err != nil {
			return one, err
		}
	}
	if err := p.register(ctx, "t", table); err != nil {
		return one, err
	}
	if one.idle, err = p.peak(); err != nil {
		return one, err
	}
	before, err := p.cpu()
	if err != nil {
		return one, err
	}
	stubBefore, err := s.cpu()
	if err != nil {
		return one, err
	}
	began := time.Now()
	job, _, err := p.drop(ctx, "t", false)
	if err != nil {
		return one, err
	}
	one.seconds = time.Since(began).Seconds()
	counts, err := p.succeeded(ctx, job)
	if err != nil {
		return one, err
	}
	if settled := counts.Files + counts.Missing; settled < int64(files) {
		return one, fmt.Errorf("%s settled %d files of %d", job, settled, files)
	}
	after, err := p.cpu()
	if err != nil {
		return one, err
	}
	one.cpu = after - before
	stubAfter, err := s.cpu()
	if err != nil {
		return one, err
	}
	one.stub = stubAfter - stubBefore
	if one.peak, err = p.peak(); err != nil {
		return one, err
	}
	if s.cmd != nil {
		one.seen, err = s.stats(ctx)
	} else {
		one.seen.Requests, err = p.requests(ctx)
	}
	return one, err
}

// storeOf is a new stub, or a new bucket of the real store.
func (b *bench) storeOf(ctx context.Context, sizes purgeSizes, flags ...string) (*store, error) {
	if sizes.Store == "stub" {
		return startStore(ctx, 0, flags...)
	}
	if sizes.Endpoint == "" {
		return nil, errors.New("--store s3 needs --endpoint, or LETHE_TEST_S3")
	}
	s := &store{
		url: sizes.Endpoint, bucket: "lethe-bench-" + uuid.NewString()[:8],
		key: os.Getenv("AWS_ACCESS_KEY_ID"), secret: os.Getenv("AWS_SECRET_ACCESS_KEY"),
	}
	return s, s.makeBucket(ctx)
}

func (r *storeReport) text(w io.Writer) {
	r.Environment.text(w)
	for _, rate := range r.Rates {
		fmt.Fprintf(w, "\n%d files, %d ms a DeleteObjects\n", rate.Files, rate.LatencyMS)
		if rate.Bound > 0 {
			fmt.Fprintf(w, "  bound      %.4g files/s; data files reach %.2f of it, the whole purge %.2f\n", rate.Bound, rate.OfBound, rate.WholeOf)
		}
		if rate.Data.N > 0 {
			fmt.Fprintf(w, "  data       %s\n", rate.Data.rangeText("files/s"))
		}
		fmt.Fprintf(w, "  purge      %s\n", rate.Whole.rangeText("files/s"))
		fmt.Fprintf(w, "  requests   %.3f per 1,000 files, data files alone %.3f\n", rate.Requests, rate.DataOnly)
		fmt.Fprintf(w, "  CPU        %s, of the stub %.3g µs\n", rate.CPUMicros.rangeText("µs a file"), rate.StubCPU.P50)
		fmt.Fprintf(w, "  VmHWM      %s, before it %.4g MiB\n", rate.Peak.rangeText("MiB"), rate.Idle.P50)
	}
	if s := r.Resume; s != nil {
		fmt.Fprintf(w, "\nkilled after %d of %d files: %d deletes were sent again, %.2f %%\n", s.KilledAt, s.Files, s.Again, s.Percent)
	}
	if len(r.Leaks) > 0 {
		fmt.Fprintln(w, "\ndeletes of keys that fail")
	}
	for _, l := range r.Leaks {
		fmt.Fprintf(w, "  %2d %%  %d files, %d failures injected: %d files and %d objects left\n", l.Percent, l.Files, l.Refused, l.Leaked, l.Objects)
	}
	checksText(w, r.Checks)
}

// requests counts the server's bulk deletes, as its metrics do.
func (e *endpoint) requests(ctx context.Context) (int64, error) {
	text, err := e.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if count, ok := strings.CutPrefix(line, "lethe_delete_pool_request_seconds_count "); ok {
			return strconv.ParseInt(strings.TrimSpace(count), 10, 64)
		}
	}
	return 0, errors.New("no metric counts the requests")
}
