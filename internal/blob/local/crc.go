package local

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// A look for a checksum that is not there costs half as much as removing a file. A
// directory that many files are deleted from is therefore read once, and when it holds
// no checksum at all, it is not asked again for a moment.
const (
	crcWorthwhile = 64          // keys in one call that justify reading the directory
	crcScanMax    = 200_000     // entries; a directory with more is asked file by file
	crcTrust      = time.Second // how long "none" holds
	crcDirs       = 64          // directories remembered
)

func crcName(base string) string { return "." + base + ".crc" }

func isCRC(base string) bool {
	return strings.HasPrefix(base, ".") && strings.HasSuffix(base, ".crc")
}

// crcCache remembers which directories hold no checksum files.
type crcCache struct {
	mu   sync.Mutex
	dirs map[string]*crcScan
}

type crcScan struct {
	once sync.Once
	none bool
	till time.Time
}

// none reports whether the open directory d surely holds no checksum file. It is asked
// for the sake of n keys. The directory must not have been read before.
func (c *crcCache) none(dir string, d *os.File, n int) bool {
	if n < crcWorthwhile {
		return false
	}
	c.mu.Lock()
	scan := c.dirs[dir]
	if scan == nil || (!scan.till.IsZero() && time.Now().After(scan.till)) {
		if c.dirs == nil || len(c.dirs) >= crcDirs {
			c.dirs = make(map[string]*crcScan)
		}
		scan = &crcScan{}
		c.dirs[dir] = scan
	}
	c.mu.Unlock()
	// Everybody who deletes in this directory waits for the one scan.
	scan.once.Do(func() {
		none := scanForNone(d)
		c.mu.Lock()
		scan.none, scan.till = none, time.Now().Add(crcTrust)
		c.mu.Unlock()
	})
	return scan.none
}

// forget makes the next call read the directory again.
func (c *crcCache) forget(dir string) {
	c.mu.Lock()
	delete(c.dirs, dir)
	c.mu.Unlock()
}

func scanForNone(d *os.File) bool {
	for seen := 0; seen < crcScanMax; {
		names, err := d.Readdirnames(listChunk)
		if slices.ContainsFunc(names, isCRC) {
			return false
		}
		if errors.Is(err, io.EOF) {
			return true
		}
		if err != nil {
			return false
		}
		seen += len(names)
	}
	return false
}
