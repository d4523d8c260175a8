// Package leaks ends the tests of a package: they leave no goroutine behind.
package leaks

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end that nobody waits for, such as those of a
// connection whose other side was closed. On a busy machine goleak's own half a second is
// little.
const patience = 30 * time.Second

// Main is the TestMain of a package.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		err := goleak.Find()
		for end := time.Now().Add(patience); err != nil && time.Now().Before(end); {
			err = goleak.Find()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left:", err)
			code = 1
		}
	}
	os.Exit(code)
}
