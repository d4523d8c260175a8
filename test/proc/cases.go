package proc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os/exec"
	"testing"
	"time"
)

// Cases runs a program that prints a JSON line a case, {"case", "seconds", "error"} with
// error null or a text, turns each into a subtest, and fails the test when there is none.
func Cases(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cases := 0
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var c struct {
			Case    string
			Seconds float64
			Error   *string
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Logf("%s", lines.Text())
			continue
		}
		cases++
		t.Run(c.Case, func(t *testing.T) {
			if c.Error != nil {
				t.Error(*c.Error)
			}
			t.Logf("took %s", time.Duration(c.Seconds*float64(time.Second)).Round(time.Millisecond))
		})
	}
	if err := cmd.Wait(); err != nil || lines.Err() != nil {
		t.Errorf("run the cases: %v %v\n%s", err, lines.Err(), stderr.String())
	}
	if cases == 0 {
		t.Error("no case ran")
	}
}
