package server

import (
	"fmt"
	"io"
	"strings"
)

const settingsHead = `# Settings

Every setting has one name in three spellings. A flag of ` + "`lethe serve`" + ` wins over the environment,
the environment over the YAML file that ` + "`--config`" + ` names, the file over the default. An environment
variable that is empty counts as not set. An unknown key in the file is an error.

` + "```yaml" + `
listen: 127.0.0.1:8181
async-purge:
  max-attempts: 8          # or, on one line: async-purge.max-attempts: 8
warehouse.allowed-locations:
  - file:///data/shared    # in the environment: separated by commas
` + "```" + `

Durations are written as Go writes them (` + "`30s`, `5m`, `1h30m`" + `); settings that end in ` + "`-ms` or `-hours`" + `
are whole numbers. Secrets have no flag: the admin's token is ` + "`" + AdminTokenVariable + "`" + ` or the file that
` + "`admin-token-file`" + ` names, the keys of stored credentials are ` + "`" + SecretKeyVariable + "`" + ` or the file that
` + "`secret-key-file`" + ` names.

| key | flag | environment | default | meaning |
|---|---|---|---|---|
`

// WriteSettingsTable writes the page of the docs that lists every setting.
func WriteSettingsTable(w io.Writer) error {
	all, err := settingsOf(&Settings{})
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(settingsHead)
	for _, s := range all {
		def := "–"
		switch {
		case s.value.HasDefault:
			def = "`" + s.value.Default + "`"
		case s.value.IsBool():
			def = "`false`"
		}
		help := strings.ReplaceAll(s.value.Help, "|", `\|`)
		fmt.Fprintf(&b, "| `%s` | `--%s` | `%s` | %s | %s |\n", s.key, s.flag, s.env, def, help)
	}
	_, err = io.WriteString(w, b.String())
	return err
}
