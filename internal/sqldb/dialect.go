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
//	{for key share}     the same, and on PostgreSQL one that a change of columns outside the
//	                    keys does not wait for: whoever removes the row must take the
//	                    exclusive lock or delete it
//	{skip locked}       leaves locked rows out where the engine can; never for safety
//	{in}                the next argument is a list (IDs or Strings): col {in}
//	{insert ignore} T   begins a statement: INSERT INTO T … of one row, and
//	{ignore}            at its end: a duplicate key inserts nothing, 0 rows
//	{q:NAME}            NAME quoted as an identifier
//
// Set statements keep to an index whatever the statistics say (a scan waits for rows that
// others hold):
//
//	{keys:a,b}          the next two arguments are a value and IDs: a = value AND b {in}
//	{key}               after a table's name or alias: by its primary key
//	{index:NAME}        the same: by that index
//	{delete:T}          DELETE FROM T by its primary key, {delete:T,INDEX} by that index;
//	                    columns go without T's name
//	{on ENGINE}…{else}…{end}  the first text on that engine, the second on others; both
//	                    take the same arguments
//	{array}             on PostgreSQL: the next argument, IDs, as an array
//	{again}             on PostgreSQL: the argument before once more
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
	undone       func(error) bool // COMMIT answered that it rolled back; nil: it never does
	rendered     sync.Map         // Statement → string, for statements without lists
	chosen       sync.Map         // Statement → string, what {on …} left of it
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

// maxKept bounds the texts that are kept, in bytes: an INSERT of many rows has one for
// every number of rows.
const maxKept = 8 << 10

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
	text, err := d.choose(s)
	var out []any
	if err == nil {
		text, out, err = d.render(text, args)
	}
	if err != nil {
		return "", nil, fmt.Errorf("sqldb: statement %.60q: %w", string(s), err)
	}
	if !lists && len(s) <= maxKept {
		d.rendered.Store(s, text)
	}
	return text, out, nil
}

// choose keeps of every {on ENGINE}…{else}…{end} the part for this engine.
func (d *Dialect) choose(s Statement) (string, error) {
	if !strings.Contains(string(s), "{on ") {
		return string(s), nil
	}
	if text, ok := d.chosen.Load(s); ok {
		return text.(string), nil
	}
	var b strings.Builder
	for rest := string(s); ; {
		before, block, found := strings.Cut(rest, "{on ")
		b.WriteString(before)
		if !found {
			break
		}
		block, after, ended := strings.Cut(block, "{end}")
		engine, block, named := strings.Cut(block, "}")
		if !ended || !named {
			return "", errors.New("unclosed {on …}")
		}
		this, other, _ := strings.Cut(block, "{else}")
		if Name(engine) != d.Name {
			this = other
		}
		b.WriteString(this)
		rest = after
	}
	d.chosen.Store(s, b.String())
	return b.String(), nil
}

// Places returns arguments of the kinds that s takes, for preparing it.
func (d *Dialect) Places(s Statement) ([]any, error) {
	text, err := d.choose(s)
	if err != nil {
		return nil, err
	}
	var args []any
	for i := range len(text) {
		switch {
		case text[i] == '?':
			args = append(args, nil)
		case strings.HasPrefix(text[i:], "{in}"):
			args = append(args, Strings{"x"})
		case strings.HasPrefix(text[i:], "{keys:"):
			args = append(args, nil, IDs{1})
		case strings.HasPrefix(text[i:], "{array}"):
			args = append(args, IDs{1})
		}
	}
	return args, nil
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
	argument := func() (v any) {
		if next < len(args) {
			v = args[next]
		}
		next++
		return v
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
			placeholder(argument())
		case '{':
			end := strings.IndexByte(s[i:], '}')
			if end < 0 {
				return "", nil, errors.New("unclosed token")
			}
			token := s[i+1 : i+end]
			i += end
			name, arg, _ := strings.Cut(token, ":")
			var err error
			switch name {
			case "in":
				err = d.list(&b, argument(), placeholder)
			case "keys":
				err = d.keys(&b, arg, argument(), argument(), placeholder)
			case "array":
				err = d.array(&b, argument(), placeholder)
			case "again":
				err = d.again(&b, len(out))
			default:
				name = ""
			}
			if err != nil {
				return "", nil, err
			}
			if name != "" {
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
		case "index":
			return d.index(arg), nil
		case "delete":
			table, index, _ := strings.Cut(arg, ",")
			if d.Name == MySQL { // a hint needs the form of several tables
				return "DELETE x FROM " + table + " x " + d.index(index), nil
			}
			return "DELETE FROM " + table + " " + d.index(index), nil
		}
	}
	if token == "key" {
		return d.index(""), nil
	}
	text, ok := d.tokens[token]
	if !ok {
		return "", fmt.Errorf("unknown token {%s}", token)
	}
	return text, nil
}

// index is the hint that makes a statement use an index, the primary key when it has no
// name. SQLite fails when there is no such index.
func (d *Dialect) index(name string) string {
	switch {
	case d.Name == MySQL && name == "":
		return "FORCE INDEX (PRIMARY)"
	case d.Name == MySQL:
		return "FORCE INDEX (" + name + ")"
	case d.Name == SQLite && name != "":
		return "INDEXED BY " + name
	}
	return ""
}

// keys writes that (a, b) is (value, one of ids). PostgreSQL takes the index for it, which
// it does not always for b = ANY(ids).
func (d *Dialect) keys(b *strings.Builder, columns string, value, ids any, placeholder func(any)) error {
	first, second, ok := strings.Cut(columns, ",")
	if !ok {
		return errors.New("{keys:a,b} takes two columns")
	}
	if !d.arrays {
		b.WriteString(first + " = ")
		placeholder(value)
		b.WriteString(" AND " + second + " ")
		return d.list(b, ids, placeholder)
	}
	b.WriteString("(" + first + ", " + second + ") IN (SELECT ")
	placeholder(value)
	b.WriteString("::bigint, unnest(")
	if err := d.array(b, ids, placeholder); err != nil {
		return err
	}
	b.WriteString("))")
	return nil
}

func (d *Dialect) array(b *strings.Builder, v any, placeholder func(any)) error {
	ids, ok := v.(IDs)
	if !ok || !d.arrays {
		return fmt.Errorf("{array} takes IDs where there are arrays, not %T on %s", v, d.Name)
	}
	placeholder([]int64(ids))
	b.WriteString("::bigint[]")
	return nil
}

func (d *Dialect) again(b *strings.Builder, n int) error {
	if !d.dollar || n == 0 {
		return errors.New("{again} where parameters have no numbers, or before the first")
	}
	b.WriteString("$" + strconv.Itoa(n))
	return nil
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
