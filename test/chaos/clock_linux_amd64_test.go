package chaos

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/proc"
)

// The wall clocks of two servers differ by two hours. Leases last as long as ever: nobody
// takes over what the other one works on, and what a dead one leaves is taken over when
// its lease has run out, not at once and not an hour later.
func TestClockSkew(t *testing.T) {
	const timeout = 5 * time.Second // much longer than a busy machine keeps a heartbeat waiting
	onServers(t, func(t *testing.T, db sqldbtest.Server) {
		// In a directory: S3 refuses requests that are signed in another hour.
		w := newWorld(t, db, config{
			nodes: 2, timeout: timeout, batch: 10, local: true, args: []string{"--async-purge-rate-limit", "80"},
		})
		skews := []time.Duration{time.Hour, -time.Hour}
		for i, n := range w.nodes {
			w.skew(n, skews[i])
		}
		w.namespaceAndSiblings()
		for i, owner := range w.nodes {
			other := w.nodes[1-i]
			name := fmt.Sprintf("v%02d", i)
			victim := w.victim(name, purgetest.Synthetic{Files: 1000, Exist: true}) // twelve seconds of work
			w.stop(other)                                                           // so that the owner gets it
			w.mustDrop(owner, name)
			proc.Eventually(t, patience, "the purge is on its way", func() bool { return w.job(name).state == job.Running })
			w.proceed(other)
			began := time.Now()
			w.pause(began.Add(timeout * 3 / 2))
			j := w.job(name)
			if j.state != job.Running || j.epoch != 1 || !owner.owns(j.owner) {
				t.Fatalf("%+v after %s, want it with server %d and its clock %s off", j, time.Since(began), owner.number, skews[i])
			}

			killed := time.Now()
			w.kill(owner)
			proc.Eventually(t, patience, "the purge is taken over", func() bool { return w.job(name).epoch == 2 })
			// The last heartbeat was up to a third of the timeout, or a save, before the end.
			took, halted := time.Since(killed), w.watch.seen().within(killed.Add(-timeout), time.Now())
			if took < timeout/2-halted || took > 3*timeout+halted {
				t.Errorf("taken over %s after the end of its owner, want about %s", took, timeout)
			}
			w.settle(patience)
			if j := w.job(name); j.epoch != 2 || !other.owns(j.owner) || j.location != victim.made.Location {
				t.Errorf("%+v, want it ended by server %d", j, other.number)
			}
			w.restart(owner)
			w.calm()
			w.skew(owner, skews[i])
		}
		w.wantUntouched()
	})
}

// skew sets a server's wall clock off, and its clock alone: in its private copy of the
// vDSO, from which Go reads the time, clock_gettime becomes a system call whose answer for
// CLOCK_REALTIME is moved. The monotonic clock stays, as when somebody sets the time.
// (libfaketime works on libc, which Go does not call.)
func (w *world) skew(n *node, by time.Duration) {
	w.t.Helper()
	code := []byte{
		0xb8, syscall.SYS_CLOCK_GETTIME, 0, 0, 0, // mov eax, SYS_clock_gettime
		0x0f, 0x05, // syscall: clock in edi, timespec in rsi; both are kept
		0x85, 0xff, // test edi, edi: CLOCK_REALTIME is 0
		0x75, 0x07, // jne ret
		0x48, 0x81, 0x06, 0, 0, 0, 0, // add qword [rsi], seconds
		0xc3, // ret
	}
	binary.LittleEndian.PutUint32(code[14:], uint32(int32(by/time.Second)))
	pid := n.server.PID()
	at, size, err := clockGettime(pid)
	if err == nil && size < uint64(len(code)) {
		err = fmt.Errorf("clock_gettime has %d bytes only", size)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	// Nobody may be inside of what is written: the process is stopped, its threads looked at.
	proc.Eventually(w.t, patience, "no thread reads the clock", func() bool {
		n.server.Signal(w.t, syscall.SIGSTOP)
		defer n.server.Signal(w.t, syscall.SIGCONT)
		if !stoppedOutside(w.t, pid, at, size) {
			return false
		}
		if err := writeMemory(pid, at, code); err != nil {
			w.t.Fatal(err)
		}
		return true
	})
	// The server itself says what time it is.
	a, err := n.must(w.t.Context(), http.MethodGet, "/readyz", nil, http.StatusOK)
	if err != nil {
		w.t.Fatal(err)
	}
	says, err := http.ParseTime(a.header.Get("Date"))
	if off := says.Sub(time.Now().Add(by)).Abs(); err != nil || off > time.Minute {
		w.t.Fatalf("server %d says it is %s, want %s from now (%v)", n.number, says, by, err)
	}
}

// clockGettime finds the function in a process' vDSO.
func clockGettime(pid int) (at, size uint64, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(maps)) {
		var begin, end uint64
		if _, err := fmt.Sscanf(line, "%x-%x", &begin, &end); err != nil || !strings.Contains(line, "[vdso]") {
			continue
		}
		memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
		if err != nil {
			return 0, 0, err
		}
		defer func() { _ = memory.Close() }()
		image := make([]byte, end-begin)
		if _, err := memory.ReadAt(image, int64(begin)); err != nil {
			return 0, 0, err
		}
		file, err := elf.NewFile(bytes.NewReader(image))
		if err != nil {
			return 0, 0, err
		}
		symbols, err := file.DynamicSymbols()
		for _, s := range symbols {
			if s.Name == "__vdso_clock_gettime" {
				return begin + s.Value, s.Size, nil
			}
		}
		return 0, 0, errors.Join(errors.New("the vDSO has no clock_gettime"), err)
	}
	return 0, 0, errors.New("the process has no vDSO")
}

// stoppedOutside reports whether all threads are stopped, and none of them in a function.
func stoppedOutside(t *testing.T, pid int, at, size uint64) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("%v, %v", threads, err)
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(filepath.Join(thread, "stat"))
		if err != nil {
			return false // it ends
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		where, err := os.ReadFile(filepath.Join(thread, "syscall")) // ends with the instruction's address
		fields := strings.Fields(string(where))
		if err != nil || len(fields) < 2 || !strings.HasPrefix(after, "T") {
			return false
		}
		var pc uint64
		if _, err := fmt.Sscanf(fields[len(fields)-1], "0x%x", &pc); err != nil || (pc >= at && pc < at+size) {
			return false
		}
	}
	return true
}

func writeMemory(pid int, at uint64, code []byte) error {
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = memory.WriteAt(code, int64(at))
	return errors.Join(err, memory.Close())
}
