package tenant

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/fault"
)

const (
	maxWarehouseName = 128
	maxRoot          = 1000 // bytes; a table's location is at most 1,100
	maxLocations     = 32
	maxProperties    = 200
	maxProperty      = 4096 // bytes of a key or value
	maxSecret        = 8192 // bytes of one field of credentials
)

func bad(format string, args ...any) error {
	return fault.New("tenant", fault.Invalid, CodeBadWarehouse, format, args...)
}

// checkName allows what stands in a path unescaped: clients write the prefix as it is.
func checkName(name string) error {
	ok := name != "" && len(name) <= maxWarehouseName && name[0] != '.' && name[0] != '-'
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_'
	}
	if !ok {
		return bad("a warehouse's name is 1 to %d letters, digits, dots, dashes and underscores, and begins with none of '.' and '-'", maxWarehouseName)
	}
	return nil
}

// roots cleans the places of a spec, the storage root first. What a kind of store asks
// of them is Stores' business.
func (s StorageSpec) roots() ([]blob.Location, error) {
	if s.URL == "" {
		return nil, bad("storage.url is required: s3://bucket/prefix or file:///directory")
	}
	if len(s.AllowedLocations) > maxLocations {
		return nil, bad("there are %d allowed locations, at most %d", len(s.AllowedLocations), maxLocations)
	}
	kind := s.Type()
	if kind != "s3" && kind != "file" {
		return nil, bad("storage.url must begin with s3:// or file://")
	}
	if kind == "file" && (s.Endpoint != "" || s.Region != "" || s.PathStyle != nil) {
		return nil, bad("a directory has no endpoint, region or path style")
	}
	if strings.IndexFunc(s.Region, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
	}) >= 0 || len(s.Region) > 64 {
		return nil, bad("storage.region is a name such as eu-west-1") // it becomes a part of a host's name
	}
	var out []blob.Location
	for i, uri := range append([]string{s.URL}, s.AllowedLocations...) {
		field := "storage.url"
		if i > 0 {
			field = "storage.allowedLocations"
		}
		l, err := blob.ParseLocation(uri)
		switch {
		case err != nil || !utf8.ValidString(uri):
			return nil, bad("%s is no location such as s3://bucket/prefix", field) // not shown: it may hold a password
		case !strings.HasPrefix(string(l), kind+"://"):
			return nil, bad("%s must be in the same kind of store as storage.url, %s://", field, kind)
		case len(l) > maxRoot || strings.Count(string(l), "/") > maxDepth:
			return nil, bad("%s is longer than %d bytes, or deeper than %d", field, maxRoot, maxDepth)
		}
		for _, other := range out {
			if l.Overlaps(other) {
				return nil, bad("%s and %s overlap", l, other)
			}
		}
		out = append(out, l)
	}
	return out, nil
}

// check refuses credentials that cannot work. Values are never shown.
func (c Credentials) check(kind string) error {
	for _, f := range []struct{ name, value string }{
		{"accessKeyId", c.AccessKeyID},
		{"secretAccessKey", c.SecretAccessKey.Reveal()},
		{"sessionToken", c.SessionToken.Reveal()},
		{"roleArn", c.RoleARN},
		{"externalId", c.ExternalID.Reveal()},
		{"sessionName", c.SessionName},
		{"stsEndpoint", c.STSEndpoint},
	} {
		if len(f.value) > maxSecret || strings.IndexFunc(f.value, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
			return bad("credentials.%s is longer than %d bytes, or holds a space or another character that no header carries", f.name, maxSecret)
		}
	}
	key := c.AccessKeyID != "" || !c.SecretAccessKey.IsZero() || !c.SessionToken.IsZero()
	if c.STSEndpoint != "" {
		u, err := url.Parse(c.STSEndpoint)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return bad("credentials.stsEndpoint must be http://host[:port] or the same with https")
		}
	}
	role := c.RoleARN != "" || !c.ExternalID.IsZero() || c.SessionName != "" || c.STSEndpoint != ""
	switch c.Type {
	case "", CredentialsDefault:
		if key || role {
			return bad("credentials of type default have no other fields: is the type static or assume-role?")
		}
		return nil
	case CredentialsStatic:
		if c.AccessKeyID == "" || c.SecretAccessKey.IsZero() || role {
			return bad("credentials of type static are accessKeyId, secretAccessKey and, if there is one, sessionToken")
		}
	case CredentialsRole:
		if c.RoleARN == "" || key {
			return bad("credentials of type assume-role are roleArn and, if needed, externalId, sessionName and stsEndpoint")
		}
	default:
		return bad("credentials.type must be default, static or assume-role")
	}
	if kind != "s3" {
		return bad("a directory needs no credentials")
	}
	return nil
}

// placed are properties that say where a table lies: one for all tables would make them
// overlap.
var placed = []string{"location", "write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path"}

func checkProperties(field string, properties map[string]string) error {
	if len(properties) > maxProperties {
		return bad("%s has %d properties, at most %d", field, len(properties), maxProperties)
	}
	for k, v := range properties {
		switch {
		case k == "" || len(k) > maxProperty || len(v) > maxProperty || strings.ContainsRune(k+v, 0):
			return bad("%s: a property has a name of 1 to %d bytes and a value of at most as many, without NUL", field, maxProperty)
		case slices.Contains(placed, k):
			return bad("%s: %s would put all tables into one place", field, k)
		}
	}
	return nil
}
