package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"golang.org/x/term"
)

// console is where a command writes: results to out, everything else to err.
type console struct {
	out, err io.Writer
	terminal bool // a person watches err
}

func newConsole() *console {
	return &console{out: os.Stdout, err: os.Stderr, terminal: term.IsTerminal(int(os.Stderr.Fd()))}
}

// note tells something to a person.
func (c *console) note(format string, args ...any) {
	_, _ = fmt.Fprintf(c.err, format+"\n", args...) // nowhere else to say so
}

func (c *console) print(format string, args ...any) error {
	_, err := fmt.Fprintf(c.out, format+"\n", args...)
	return err
}

// json writes one value on a line of its own.
func (c *console) json(v any) error {
	enc := json.NewEncoder(c.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// rows writes columns that are aligned. The first line is the head.
type rows struct{ tw *tabwriter.Writer }

func (c *console) rows(head ...string) rows {
	r := rows{tabwriter.NewWriter(c.out, 0, 8, 2, ' ', 0)}
	if len(head) > 0 {
		r.add(head...)
	}
	return r
}

func (r rows) add(cells ...string) {
	for i, cell := range cells {
		cells[i] = printable(cell)
	}
	_, _ = fmt.Fprintln(r.tw, strings.TrimRight(strings.Join(cells, "\t"), "\t")) // Flush answers for it
}

func (r rows) flush() error { return r.tw.Flush() }

// printable keeps what others have named from steering the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// count writes 1234567 as 1,234,567.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// size writes a size with three digits or so.
func size(n int64) string {
	const unit = 1000
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, prefix := float64(n)/unit, 0
	for value >= unit && prefix < len("kMGTPE")-1 {
		value /= unit
		prefix++
	}
	return fmt.Sprintf("%.1f %cB", value, "kMGTPE"[prefix])
}

// shell quotes an argument for the shell, where that is needed.
func shell(arg string) string {
	plain := func(r rune) bool {
		return r == '.' || r == '_' || r == '-' || r == '/' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if arg != "" && strings.IndexFunc(arg, func(r rune) bool { return !plain(r) }) < 0 {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
