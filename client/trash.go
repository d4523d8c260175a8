package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Trashed is a file or tree that was deleted and is still there.
type Trashed struct {
	ID         string     `json:"id"`   // the job that will delete it, such as delete-7
	Kind       string     `json:"kind"` // TREE or FILE
	Path       string     `json:"path"` // where it was
	Inode      int64      `json:"inode"`
	State      JobState   `json:"state"`
	Restorable bool       `json:"restorable"`
	Partial    bool       `json:"partial"` // its deletion was begun and cancelled
	Size       *int64     `json:"size"`    // of a file, in bytes; nil of a tree
	DeletedBy  string     `json:"deletedBy"`
	DeletedAt  time.Time  `json:"deletedAt"`
	Until      *time.Time `json:"until"` // when it goes; nil: when somebody empties it
}

// Restored is what came back.
type Restored struct {
	Path  string `json:"path"`
	Inode int64  `json:"inode"`
	Job   string `json:"job"`
}

// Trash is what was deleted and can still be restored.
type Trash struct{ c *Client }

// Trash returns the drive's trash.
func (d Drive) Trash() Trash { return Trash(d) }

const trashPath = "/v1/trash"

// List walks the trash, newest first.
func (t Trash) List(ctx context.Context) iter.Seq2[Trashed, error] {
	return cursored(url.Values{}, func(query url.Values) ([]Trashed, string, error) {
		var page struct {
			Trash      []Trashed `json:"trash"`
			NextCursor string    `json:"nextCursor"`
		}
		_, err := t.c.do(ctx, request{method: http.MethodGet, path: trashPath, query: query, into: &page})
		return page.Trash, page.NextCursor, err
	})
}

// Restore brings back what id names: to where it was, or to another path that must be
// free. It is never sent again.
func (t Trash) Restore(ctx context.Context, id, to string) (r Restored, err error) {
	body := map[string]string{}
	if to != "" {
		body["to"] = to
	}
	_, err = t.c.do(ctx, request{method: http.MethodPost, path: trashPath + "/" + segment(id) + "/restore", body: body, into: &r})
	return r, err
}

// Empty has what id names deleted now, by the job of the same name, a paused one too. When
// an answer was lost and it is not in the trash any more because it is gone, it was this
// call that did it.
func (t Trash) Empty(ctx context.Context, id string) (after Trashed, err error) {
	_, lost, err := t.c.tell(ctx, request{method: http.MethodDelete, path: trashPath + "/" + segment(id), into: &after})
	if !lost || StatusOf(err) != http.StatusConflict {
		return after, err
	}
	j, lookErr := t.c.Jobs().Get(ctx, id)
	if lookErr != nil || j.State != Succeeded {
		return after, err
	}
	return Trashed{ID: id, Kind: j.Object.Type, Path: j.Object.Path, State: j.State, DeletedBy: j.CreatedBy, DeletedAt: j.CreatedAt}, nil
}

// EmptyAll has everything in the trash deleted now, and returns how much of it there was.
func (t Trash) EmptyAll(ctx context.Context) (n int64, err error) {
	var body struct {
		Emptied int64 `json:"emptied"`
	}
	_, err = t.c.do(ctx, request{method: http.MethodDelete, path: trashPath, into: &body})
	return body.Emptied, err
}
