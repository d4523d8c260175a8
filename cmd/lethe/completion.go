package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help tells where the script goes.
func (*completionCmd) Help() string {
	return `For this shell only:

  source <(lethe completion bash)
  source <(lethe completion zsh)
  lethe completion fish | source

For all, write it to /etc/bash_completion.d/lethe, to a file _lethe in $fpath, or to
~/.config/fish/completions/lethe.fish.`
}

// Run prints the script.
func (m *completionCmd) Run(c *console, ctx *kong.Context) error {
	levels := completions(ctx.Model.Node, "")
	script := map[string]func([]level) string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[m.Shell]
	return c.print("%s", strings.TrimSuffix(script(levels), "\n"))
}

// level is what may come behind some commands.
type level struct {
	path  string // of commands, such as /fs/trash; empty at first
	words []word
}

type word struct{ text, help string }

// completions walks the tree of commands.
func completions(node *kong.Node, path string) []level {
	l := level{path: path}
	var below []level
	for _, child := range node.Children {
		if child.Type != kong.CommandNode || child.Hidden {
			continue
		}
		l.words = append(l.words, word{child.Name, child.Help})
		below = append(below, completions(child, path+"/"+child.Name)...)
	}
	for _, arg := range node.Positional {
		for _, value := range enumOf(arg) {
			l.words = append(l.words, word{value, arg.Help})
		}
	}
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			if slices.ContainsFunc(l.words, func(w word) bool { return w.text == "--"+flag.Name }) {
				continue
			}
			l.words = append(l.words, word{"--" + flag.Name, flag.Help})
		}
	}
	return append([]level{l}, below...)
}

func enumOf(v *kong.Value) []string {
	if v.Enum == "" {
		return nil
	}
	return v.EnumSlice()
}

// known is the pattern of all paths of commands.
func known(levels []level) string {
	var paths []string
	for _, l := range levels {
		if l.path != "" {
			paths = append(paths, l.path)
		}
	}
	return strings.Join(paths, "|")
}

func bashScript(levels []level) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# bash completion of lethe
_lethe() {
  local cur=${COMP_WORDS[COMP_CWORD]} path= words= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$path/${COMP_WORDS[i]}" in
      %s) path="$path/${COMP_WORDS[i]}" ;;
    esac
  done
  case "$path" in
`, known(levels))
	for _, l := range levels {
		fmt.Fprintf(&b, "    %s) words=%s ;;\n", shell(l.path), shell(texts(l)))
	}
	b.WriteString(`  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _lethe lethe
`)
	return b.String()
}

func zshScript(levels []level) string {
	var b strings.Builder
	fmt.Fprintf(&b, `#compdef lethe
_lethe() {
  local p= i
  local -a options
  for ((i = 2; i < CURRENT; i++)); do
    case "$p/${words[i]}" in
      %s) p="$p/${words[i]}" ;;
    esac
  done
  case "$p" in
`, known(levels))
	for _, l := range levels {
		fmt.Fprintf(&b, "    %s) options=(", shell(l.path))
		for _, w := range l.words {
			b.WriteString(" " + shell(strings.ReplaceAll(w.text, ":", `\:`)+":"+w.help))
		}
		b.WriteString(" ) ;;\n")
	}
	b.WriteString(`  esac
  _describe 'lethe' options
  _files
}
if [ "$funcstack[1]" = "_lethe" ]; then _lethe; else compdef _lethe lethe; fi
`)
	return b.String()
}

func fishScript(levels []level) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# fish completion of lethe
function __lethe_at
    set -l path ''
    set -l words (commandline -opc)
    set -e words[1]
    for word in $words
        if contains -- "$path/$word" %s
            set path "$path/$word"
        end
    end
    test "$path" = "$argv[1]"
end
`, strings.ReplaceAll(known(levels), "|", " "))
	for _, l := range levels {
		for _, w := range l.words {
			what := "-a " + shell(w.text)
			if flag, ok := strings.CutPrefix(w.text, "--"); ok {
				what = "-l " + shell(flag)
			}
			fmt.Fprintf(&b, "complete -c lethe -n %s %s -d %s\n", shell("__lethe_at "+shell(l.path)), what, shell(w.help))
		}
	}
	return b.String()
}

func texts(l level) string {
	out := make([]string, len(l.words))
	for i, w := range l.words {
		out[i] = w.text
	}
	return strings.Join(out, " ")
}
