package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// sections are the groups of settings; their names end at a dot in a key.
var sections = []string{"async-purge", "drive-delete", "warehouse", "log"}

// setting is one setting in its three spellings.
type setting struct {
	key, flag, env string
	value          *kong.Flag
}

// String names the setting in every spelling, for messages.
func (s setting) String() string {
	return fmt.Sprintf("%s (flag --%s, environment %s)", s.key, s.flag, s.env)
}

func newSetting(flag *kong.Flag) setting {
	key := flag.Name
	for _, section := range sections {
		if rest, ok := strings.CutPrefix(flag.Name, section+"-"); ok {
			key = section + "." + rest
		}
	}
	env := "LETHE_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
	return setting{key: key, flag: flag.Name, env: env, value: flag}
}

// settingsOf lists the settings in the order of the struct.
func settingsOf(s *Settings) ([]setting, error) {
	parser, err := kong.New(s, kong.NoDefaultHelp())
	if err != nil {
		return nil, fmt.Errorf("server: settings: %w", err)
	}
	all := make([]setting, 0, len(parser.Model.Flags))
	for _, flag := range parser.Model.Flags {
		all = append(all, newSetting(flag))
	}
	return all, nil
}

// DefaultSettings returns the settings of a server that was told nothing.
func DefaultSettings() Settings {
	var s Settings
	parser, err := kong.New(&s, kong.NoDefaultHelp())
	if err == nil {
		_, err = parser.Parse(nil)
	}
	if err != nil {
		panic("server: default settings: " + err.Error()) // a wrong tag: the tests see it
	}
	return s
}

// SettingsSource returns a resolver that fills settings which have no flag on the
// command line: from the environment, else from the YAML file that --config or
// LETHE_CONFIG names. A variable that is set and empty counts as not set.
func SettingsSource(lookup func(string) (string, bool)) kong.Resolver {
	return &source{lookup: lookup}
}

type source struct {
	lookup func(string) (string, bool)
	loaded bool
	known  map[string]setting // by flag
	file   map[string]*yaml.Node
	path   string
	broken error // of the file
}

// Validate implements kong.Resolver. A file that cannot be read is said here: what Resolve
// returns kong takes for a fault of the flag that it asks for.
func (s *source) Validate(*kong.Application) error { return s.broken }

// Resolve implements kong.Resolver.
func (s *source) Resolve(ctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if !s.loaded {
		s.loaded, s.broken = true, s.load(ctx)
	}
	known, ok := s.known[flag.Name]
	if !ok {
		return nil, nil //nolint:nilnil // kong's way to say: not mine
	}
	if text, ok := s.variable(known.env); ok {
		if flag.IsSlice() {
			return check(known, "the environment", flag, list(strings.Split(text, ",")))
		}
		return check(known, "the environment", flag, text)
	}
	node, ok := s.file[known.key]
	if !ok {
		return nil, nil //nolint:nilnil // kong's way to say: keep the default
	}
	value, err := fromYAML(node, flag.IsSlice())
	if err != nil {
		return nil, fmt.Errorf("setting %s in %s, line %d: %w", known, s.path, node.Line, err)
	}
	return check(known, s.path, flag, value)
}

func (s *source) variable(name string) (string, bool) {
	text, ok := s.lookup(name)
	return text, ok && text != ""
}

// load reads the file, which the command line names before the environment does.
func (s *source) load(ctx *kong.Context) error {
	all, err := settingsOf(&Settings{})
	if err != nil {
		return err
	}
	s.known = map[string]setting{}
	for _, known := range all {
		s.known[known.flag] = known
	}
	s.path, _ = s.variable(s.known["config"].env)
	for _, at := range ctx.Path {
		if at.Flag == nil || at.Flag.Name != "config" {
			continue
		}
		if path, ok := ctx.FlagValue(at.Flag).(string); ok && path != "" {
			s.path = path
		}
	}
	if s.path == "" {
		return nil
	}
	raw, err := os.ReadFile(s.path)
	if err != nil {
		return fmt.Errorf("setting %s: %w", s.known["config"], err)
	}
	s.file, err = parseFile(raw, all)
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	return nil
}

// parseFile returns the values by key. Sections may be nested or written with a dot.
func parseFile(raw []byte, all []setting) (map[string]*yaml.Node, error) {
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil //nolint:nilnil // an empty file sets nothing
	case err != nil:
		return nil, err
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one YAML document")
	}
	keys := make([]string, 0, len(all))
	for _, known := range all {
		if known.key != "config" { // a file does not name itself
			keys = append(keys, known.key)
		}
	}
	values := map[string]*yaml.Node{}
	if root := doc.Content[0]; root.Kind != yaml.ScalarNode || root.Tag != "!!null" {
		if err := flatten("", root, keys, values); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func flatten(prefix string, node *yaml.Node, keys []string, values map[string]*yaml.Node) error {
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: want settings as key: value", node.Line)
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		key := prefix + name.Value
		switch {
		case slices.Contains(keys, key):
			if _, twice := values[key]; twice {
				return fmt.Errorf("line %d: setting %s is given twice", name.Line, key)
			}
			values[key] = value
		case slices.Contains(sections, key):
			if err := flatten(key+".", value, keys, values); err != nil {
				return err
			}
		default:
			return fmt.Errorf("line %d: unknown setting %q", name.Line, key)
		}
	}
	return nil
}

// fromYAML returns a scalar as it is written, so that 1h, 5 and true are read as they
// are on the command line.
func fromYAML(node *yaml.Node, slice bool) (any, error) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch {
	case node.Kind == yaml.ScalarNode && node.Tag == "!!null":
		return nil, errors.New("has no value: remove the line to get the default")
	case node.Kind == yaml.ScalarNode && slice:
		return list([]string{node.Value}), nil
	case node.Kind == yaml.ScalarNode:
		return node.Value, nil
	case node.Kind == yaml.SequenceNode && slice:
		var items []string
		if err := node.Decode(&items); err != nil {
			return nil, err
		}
		return list(items), nil
	default:
		return nil, errors.New("want one value")
	}
}

func list(items []string) []any {
	out := make([]any, 0, len(items))
	for _, item := range items {
		out = append(out, strings.TrimSpace(item))
	}
	return out
}

// check parses the value on the side: kong's own message would name the flag only.
func check(known setting, where string, flag *kong.Flag, value any) (any, error) {
	scratch := reflect.New(flag.Target.Type()).Elem()
	if err := flag.Parse(kong.Scan().PushTyped(value, kong.FlagValueToken), scratch); err != nil {
		return nil, fmt.Errorf("setting %s, from %s: %w", known, where, err)
	}
	return value, nil
}
