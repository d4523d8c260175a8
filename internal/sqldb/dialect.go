package sqldb

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// Name is the name of a database engine.
type Name string

// The engines.
const (
	SQLite   Name = "sqlite"
	Postgres Name = "postgres"
	MySQL    Name = "mysql"
)

// Statement is SQL text as the product writes it: ? for a parameter, and tokens that
// the Dialect renders:
//
//	{now}               the database's clock, milliseconds since the Unix epoch
//	{for update}        exclusive row lock, as a suffix
//	{for share}         shared row lock, as a suffix
//	{skip locked}       leaves locked rows out where the engine can; never for safety
//	{in}                the next argument is a list (IDs or Strings): col {in}
//	{insert ignore} T   begins a statement: INSERT INTO T … of one row, and
//	{ignore}            at its end: a duplicate key inserts nothing, 0 rows
//	{q:NAME}            NAME quoted as an identifier
//
// and in migrations:
//
//	{serial}            a BIGINT primary key that counts by itself
//	{name:N}            text compared by bytes, at most N bytes
//	{text}              long text, {bytes} long binary
//	{table}             ends CREATE TABLE (engine options)
//	{clustered}         the same, of a table whose rows lie in the order of its primary key
//	                    where the engine can
//
// A reference is a line of its own, FOREIGN KEY (a) REFERENCES t (b): MySQL 8 ignores one
// that stands with its column.
type Statement string

// IDs is a list argument for {in}.
type IDs []int64

// Strings is a list argument for {in}.
type Strings []string

// Class is what an error of the database means for the caller.
type Class uint8

// The classes.
const (
	ClassOther     Class = iota
	ClassUnique          // a unique key is taken
	ClassRetry           // deadlock, serialization, busy: the transaction may run again
	ClassLockWait        // a lock was not had in time; also worth another try
	ClassConn            // the connection broke
	ClassFull            // no room on the database's disk
	ClassReference       // a foreign key does not hold
)

// Dialect is what differs between engines, as data.
type Dialect struct {
	Name      Name
	MaxList   int // items that one {in} list may hold
	MaxInsert int // rows that one multi-row INSERT may hold

	tokens  map[string]string
	dollar  bool // $1 instead of ?
	arrays  bool // a list is one array parameter
	quote   string
	returns bool // INSERT … RETURNING id
	// ignoresError: {insert ignore} is a plain INSERT whose duplicate is forgiven.
	ignoresError bool
	classify     func(error) Class
	rendered     sync.Map // Statement → string, for statements without lists
}

// Classify tells what err means. It looks at driver codes, never at text.
func (d *Dialect) Classify(err error) Class {
	if err == nil {
		return ClassOther
	}
	return d.classify(err)
}

// ignored reports whether err is the duplicate key that s asked to leave out.
func (d *Dialect) ignored(s Statement, err error) bool {
	return d.ignoresError && strings.HasPrefix(string(s), "{insert ignore}") && d.Classify(err) == ClassUnique
}

// Render returns the engine's text of s and its arguments, with lists spread.
func (d *Dialect) Render(s Statement, args []any) (string, []any, error) {
	lists := false
	for _, a := range args {
		switch a.(type) {
		case IDs, Strings:
			lists = true
		}
	}
	if !lists {
		if text, ok := d.rendered.Load(s); ok {
			return text.(string), args, nil
		}
	}
	text, out, err := d.render(string(s), args)
	if err != nil {
		return "", nil, fmt.Errorf("sqldb: statement %.60q: %w", string(s), err)
	}
	if !lists {
		d.rendered.Store(s, text)
	}
	return text, out, nil
}

func (d *Dialect) render(s string, args []any) (string, []any, error) {
	var b strings.Builder
	b.Grow(len(s) + 16)
	out := make([]any, 0, len(args))
	next := 0
	placeholder := func(v any) {
		out = append(out, v)
		if d.dollar {
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(len(out)))
		} else {
			b.WriteByte('?')
		}
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\'': // a literal: copied whole
			end := strings.IndexByte(s[i+1:], '\'')
			if end < 0 {
				return "", nil, errors.New("unclosed literal")
			}
			b.WriteString(s[i : i+end+2])
			i += end + 1
		case '?':
			var v any
			if next < len(args) {
				v = args[next]
			}
			next++
			placeholder(v)
		case '{':
			end := strings.IndexByte(s[i:], '}')
			if end < 0 {
				return "", nil, errors.New("unclosed token")
			}
			token := s[i+1 : i+end]
			i += end
			if token == "in" {
				var v any
				if next < len(args) {
					v = args[next]
				}
				next++
				if err := d.list(&b, v, placeholder); err != nil {
					return "", nil, err
				}
				continue
			}
			text, err := d.token(token)
			if err != nil {
				return "", nil, err
			}
			b.WriteString(text)
		default:
			b.WriteByte(c)
		}
	}
	if len(args) > 0 && next != len(args) {
		return "", nil, fmt.Errorf("%d arguments for %d places", len(args), next)
	}
	return b.String(), out, nil
}

func (d *Dialect) token(token string) (string, error) {
	if name, arg, ok := strings.Cut(token, ":"); ok {
		switch name {
		case "q":
			return d.quote + arg + d.quote, nil
		case "name":
			if d.Name == MySQL {
				return "VARBINARY(" + arg + ")", nil
			}
			return d.tokens["name"], nil
		}
	}
	text, ok := d.tokens[token]
	if !ok {
		return "", fmt.Errorf("unknown token {%s}", token)
	}
	return text, nil
}

// list writes "IN (…)" or "= ANY($n)". On engines without arrays the length is padded
// to a power of two with the last item, so that few texts are ever prepared.
func (d *Dialect) list(b *strings.Builder, v any, placeholder func(any)) error {
	var items []any
	switch l := v.(type) {
	case IDs:
		if d.arrays {
			b.WriteString("= ANY(")
			placeholder([]int64(l))
			b.WriteByte(')')
			return nil
		}
		for _, id := range l {
			items = append(items, id)
		}
	case Strings:
		if d.arrays {
			b.WriteString("= ANY(")
			placeholder([]string(l))
			b.WriteByte(')')
			return nil
		}
		for _, s := range l {
			items = append(items, s)
		}
	default:
		return fmt.Errorf("{in} takes IDs or Strings, not %T", v)
	}
	if len(items) > d.MaxList {
		return fmt.Errorf("a list of %d items, at most %d", len(items), d.MaxList)
	}
	if len(items) == 0 {
		b.WriteString("IN (NULL)")
		return nil
	}
	want := 1
	for want < len(items) {
		want *= 2
	}
	want = min(want, d.MaxList)
	b.WriteString("IN (")
	for i := range want {
		if i > 0 {
			b.WriteByte(',')
		}
		placeholder(items[min(i, len(items)-1)])
	}
	b.WriteByte(')')
	return nil
}
