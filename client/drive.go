package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Drive is the files and directories of the token's tenant. Paths are absolute, such as
// /reports/2026.csv, and are sent byte for byte.
type Drive struct{ c *Client }

// Drive returns the drive of the token's tenant.
func (c *Client) Drive() Drive { return Drive{c} }

// EntryType is what an entry is.
type EntryType string

// The types.
const (
	FileType      EntryType = "file"
	DirectoryType EntryType = "directory"
	SymlinkType   EntryType = "symlink"
)

// Entry is a file, directory or symbolic link.
type Entry struct {
	Name     string    `json:"name"`
	Path     string    `json:"path,omitempty"` // empty in lists
	Type     EntryType `json:"type"`
	Size     int64     `json:"size"` // bytes
	Inode    int64     `json:"inode"`
	Revision int64     `json:"revision"`
	MTime    time.Time `json:"mtime"`
	NLink    int64     `json:"nlink"`
	Mode     string    `json:"mode"` // permission bits in octal
	ETag     string    `json:"etag"`
	Target   string    `json:"target,omitempty"` // of a symbolic link
	SHA256   string    `json:"sha256,omitempty"`
}

// IsDir reports whether e is a directory.
func (e Entry) IsDir() bool { return e.Type == DirectoryType }

// fsPath is the escaped path of a request about a drive's path. Every byte arrives as it
// is, a dot component too: the server refuses it, and nothing on the way resolves it.
func fsPath(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, p := range parts {
		parts[i] = segment(p)
	}
	return "/v1/fs/" + strings.Join(parts, "/")
}

// Stat describes what a path names, following symbolic links.
func (d Drive) Stat(ctx context.Context, path string) (Entry, error) {
	return d.stat(ctx, path, url.Values{"stat": {""}})
}

// Lstat is Stat of a symbolic link itself.
func (d Drive) Lstat(ctx context.Context, path string) (Entry, error) {
	return d.stat(ctx, path, url.Values{"stat": {""}, "follow": {"false"}})
}

func (d Drive) stat(ctx context.Context, path string, query url.Values) (e Entry, err error) {
	if err := absolute(path); err != nil {
		return e, err
	}
	_, err = d.c.do(ctx, request{method: http.MethodGet, path: fsPath(path), query: query, into: &e})
	return e, err
}

// List walks a directory in the byte order of names.
func (d Drive) List(ctx context.Context, path string) iter.Seq2[Entry, error] {
	return cursored(url.Values{"list": {""}}, func(query url.Values) ([]Entry, string, error) {
		var page struct {
			Entries    []Entry `json:"entries"`
			NextCursor string  `json:"nextCursor"`
		}
		_, err := d.c.do(ctx, request{method: http.MethodGet, path: fsPath(path), query: query, into: &page})
		return page.Entries, page.NextCursor, err
	})
}

// cursored is paged for lists whose pages are named by cursor.
func cursored[T any](query url.Values, page func(query url.Values) ([]T, string, error)) iter.Seq2[T, error] {
	return paged(query, func(query url.Values) ([]T, string, error) {
		if token := query.Get("pageToken"); token != "" {
			query.Set("cursor", token)
		}
		sent := url.Values{}
		for name, values := range query {
			if name != "pageToken" {
				sent[name] = values
			}
		}
		return page(sent)
	})
}

// ChangeOptions are conditions of a change; the zero value has none.
type ChangeOptions struct {
	IfMatch   string // an ETag that the entry must have
	NoReplace bool   // nothing may be at the destination
}

func (o ChangeOptions) header() map[string]string {
	h := map[string]string{}
	if o.IfMatch != "" {
		h["If-Match"] = o.IfMatch
	}
	if o.NoReplace {
		h["If-None-Match"] = "*"
	}
	return h
}

// plain reports that a change with these options may be sent again: it does the same
// when it is done twice.
func (o ChangeOptions) plain() bool { return o.IfMatch == "" && !o.NoReplace }

func (d Drive) operate(ctx context.Context, path, op string, opts ChangeOptions, again bool, body any) (e Entry, err error) {
	if err := absolute(path); err != nil {
		return e, err
	}
	_, err = d.c.do(ctx, request{
		method: http.MethodPost, path: fsPath(path), query: url.Values{"op": {op}}, header: opts.header(), body: body, into: &e, again: again,
	})
	return e, err
}

// MkdirOptions of Mkdir.
type MkdirOptions struct {
	Parents bool   // make those above it too; one that is there already is no error
	Mode    uint32 // permission bits of a new directory, 0 means 0755
}

// Mkdir makes a directory.
func (d Drive) Mkdir(ctx context.Context, path string, opts MkdirOptions) (Entry, error) {
	body := map[string]any{"parents": opts.Parents}
	if opts.Mode != 0 {
		body["mode"] = octal(opts.Mode)
	}
	return d.operate(ctx, path, "mkdir", ChangeOptions{}, opts.Parents, body)
}

// Rename moves an entry. A file replaces a file, a directory an empty directory only. It
// is never sent again.
func (d Drive) Rename(ctx context.Context, from, to string, opts ChangeOptions) (Entry, error) {
	return d.operate(ctx, from, "rename", opts, false, map[string]string{"to": to})
}

// Copy copies a file within the drive: no bytes travel.
func (d Drive) Copy(ctx context.Context, from, to string, opts ChangeOptions) (Entry, error) {
	return d.operate(ctx, from, "copy", opts, opts.plain(), map[string]string{"to": to})
}

// Link gives a file another name. It is never sent again.
func (d Drive) Link(ctx context.Context, path, to string) (Entry, error) {
	return d.operate(ctx, path, "link", ChangeOptions{}, false, map[string]string{"to": to})
}

// Symlink makes a symbolic link at path. It is never sent again.
func (d Drive) Symlink(ctx context.Context, path, target string) (Entry, error) {
	return d.operate(ctx, path, "symlink", ChangeOptions{}, false, map[string]string{"target": target})
}

// Chmod sets the permission bits.
func (d Drive) Chmod(ctx context.Context, path string, mode uint32, opts ChangeOptions) (Entry, error) {
	return d.operate(ctx, path, "chmod", opts, opts.plain(), map[string]string{"mode": octal(mode)})
}

func octal(mode uint32) string { return "0" + strconv.FormatUint(uint64(mode), 8) }

// Permissions are the permission bits of Mode.
func (e Entry) Permissions() uint32 {
	bits, err := strconv.ParseUint(e.Mode, 8, 32)
	if err != nil {
		return 0 // a server of another age
	}
	return uint32(bits)
}

type tagsBody struct {
	Tags map[string]string `json:"tags"`
}

// Tags returns the tags of an entry.
func (d Drive) Tags(ctx context.Context, path string) (map[string]string, error) {
	var body tagsBody
	_, err := d.c.do(ctx, request{method: http.MethodGet, path: fsPath(path), query: url.Values{"tags": {""}}, into: &body})
	return body.Tags, err
}

// Tag sets and removes tags and returns all of them afterwards.
func (d Drive) Tag(ctx context.Context, path string, set map[string]string, remove []string) (map[string]string, error) {
	var body tagsBody
	_, err := d.c.do(ctx, request{
		method: http.MethodPost, path: fsPath(path), query: url.Values{"op": {"tag"}},
		body: map[string]any{"set": set, "remove": remove}, into: &body, again: true,
	})
	return body.Tags, err
}
