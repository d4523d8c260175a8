package pace_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lethe-project/lethe/internal/pace"
	"github.com/lethe-project/lethe/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// Times of the tests; the clock is the bubble's, so work is a sleep.
const (
	slice    = 500 * time.Microsecond
	recent   = 20 * time.Millisecond
	patience = 5 * time.Millisecond
	unit     = 50 * time.Microsecond // between two steps
)

func config(slots int) pace.Config {
	return pace.Config{Slots: slots, Slice: slice, Recent: recent, Patience: patience, Rest: 2}
}

// work computes for d with a step every unit, and returns how long it took.
func work(s *pace.Section, d time.Duration) time.Duration {
	began := time.Now()
	for range d / unit {
		s.Step()
		time.Sleep(unit)
	}
	s.Pause()
	return time.Since(began)
}

func TestWithoutRequestsNothingWaits(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		slots, sections int
		want            time.Duration // for a second of work in each section
	}{
		"one section":                {1, 1, time.Second},
		"as many as slots":           {3, 3, time.Second},
		"two share one processor":    {1, 2, 2 * time.Second},
		"three share two processors": {2, 3, 1500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := pace.New(config(tt.slots))
				began := time.Now()
				var all sync.WaitGroup
				for range tt.sections {
					all.Go(func() { work(g.Section(), time.Second) })
				}
				all.Wait()
				if took := time.Since(began); took < tt.want || took > tt.want+tt.want/50 {
					t.Errorf("%v, want %v", took, tt.want)
				}
			})
		})
	}
}

// While requests come, all sections together get a third of one processor.
func TestRequestsBoundTheDutyOfAllSections(t *testing.T) {
	t.Parallel()
	for name, sections := range map[string]int{"one section": 1, "six sections": 6} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := pace.New(config(3))
				const each = 60 * time.Millisecond
				stop := make(chan struct{})
				var asking, all sync.WaitGroup
				asking.Go(func() {
					for {
						g.Request()() // a quick one every 10 ms
						select {
						case <-stop:
							return
						case <-time.After(recent / 2):
						}
					}
				})
				synctest.Wait()
				began := time.Now()
				for range sections {
					all.Go(func() { work(g.Section(), each) })
				}
				all.Wait()
				close(stop)
				asking.Wait()
				done := time.Duration(sections) * each
				if took := time.Since(began); took < 27*done/10 || took > 4*done {
					t.Errorf("%v of work took %v, want about three times that", done, took)
				}
			})
		})
	}
}

// A section makes room for a request, and takes its turn again when that is gone.
func TestASectionMakesRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := pace.New(config(1))
		s := g.Section()
		done := g.Request()
		done() // from here on requests are expected
		s.Step()
		time.Sleep(slice / 2)
		done = g.Request()
		go func() {
			time.Sleep(2 * time.Millisecond)
			done()
		}()
		began := time.Now()
		s.Step()
		if waited := time.Since(began); waited < 2*time.Millisecond || waited > 4*time.Millisecond {
			t.Errorf("waited %v for a request of 2 ms", waited)
		}
		s.Pause()
	})
}

// However busy the server is, a section gets its floor: a slice within each patience.
func TestNothingStarves(t *testing.T) {
	t.Parallel()
	for name, sections := range map[string]int{"one section": 1, "four sections": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := pace.New(config(1))
				stop := make(chan struct{})
				var asking, all sync.WaitGroup
				asking.Go(func() { // there is always a young request
					for done := g.Request(); ; {
						select {
						case <-stop:
							done()
							return
						case <-time.After(recent / 2):
						}
						next := g.Request()
						done()
						done = next
					}
				})
				synctest.Wait()
				const each = 20 * slice
				began := time.Now()
				for range sections {
					all.Go(func() { work(g.Section(), each) })
				}
				all.Wait()
				close(stop)
				asking.Wait()
				floor := time.Duration(sections) * 20 * (slice + patience)
				if took := time.Since(began); took > floor+floor/10 {
					t.Errorf("took %v, want at most %v", took, floor)
				}
			})
		})
	}
}

// A request that waits, perhaps for the very purge, slows nothing down for long.
func TestOldRequestsDoNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := pace.New(config(1))
		done := g.Request()
		time.Sleep(100 * time.Millisecond)
		if took := work(g.Section(), time.Second); took > time.Second+10*time.Millisecond {
			t.Errorf("a second of work took %v beside a request that waits", took)
		}
		done()
		again := g.Request() // cohorts are told apart: the old one leaves its own
		if took := work(g.Section(), 10*slice); took < 15*slice {
			t.Errorf("10 slices took %v beside a young request", took)
		}
		again()
	})
}

// A pause lets the next one in, and a section that was never held may pause.
func TestPauseGivesTheTurnBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := pace.New(config(1))
		a, b := g.Section(), g.Section()
		b.Pause()
		a.Row()
		got := make(chan struct{})
		go func() {
			b.Step()
			close(got)
		}()
		synctest.Wait()
		select {
		case <-got:
			t.Fatal("two sections hold one slot")
		default:
		}
		a.Pause()
		a.Pause()
		<-got
		b.Pause()
	})
}

// Most rows pass without a look at the clock, but not for longer than a few.
func TestRowLooksNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := pace.New(config(1))
		a, b := g.Section(), g.Section()
		a.Row()
		time.Sleep(slice)
		got := make(chan struct{})
		go func() {
			b.Step()
			b.Pause()
			close(got)
		}()
		synctest.Wait()
		rows := 0
		for open := true; open; rows++ {
			a.Row()
			select {
			case <-got:
				open = false
			default:
			}
			if rows > 100 {
				t.Fatal("the slice never ends")
			}
		}
		a.Pause()
	})
}

func TestNilPacesNothing(t *testing.T) {
	t.Parallel()
	var g *pace.Governor
	g.Request()()
	s := g.Section()
	s.Step()
	s.Row()
	s.Pause()
	if ctx := pace.With(t.Context(), s); pace.Of(ctx) != nil {
		t.Error("a section came from nowhere")
	}
	s = pace.New(pace.Config{}).Section()
	if pace.Of(pace.With(t.Context(), s)) != s {
		t.Error("the context lost its section")
	}
}

func BenchmarkRow(b *testing.B) {
	s := pace.New(pace.Config{}).Section()
	for b.Loop() {
		s.Row()
	}
	s.Pause()
}

func BenchmarkRequest(b *testing.B) {
	g := pace.New(pace.Config{})
	for b.Loop() {
		g.Request()()
	}
}
