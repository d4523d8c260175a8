package files

import (
	"net/http"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/tenant"
)

// administrator refuses a token that may not do everything in its tenant: what follows is
// about the whole drive.
func (c *call) administrator() error {
	if c.principal.Admin() {
		return nil
	}
	return tenant.Denied("files.administrator", tenant.Write, "the whole drive")
}

type usageBody struct {
	Bytes      int64 `json:"bytes"`
	Files      int64 `json:"files"`
	Reserved   int64 `json:"reserved"`
	QuotaBytes int64 `json:"quotaBytes"`
	QuotaFiles int64 `json:"quotaFiles"`
}

// usage answers GET /v1/usage: what the whole drive holds, its trash too.
func (e *edge) usage(c *call) error {
	if !c.principal.MayDrive(tenant.Read, "/") {
		return tenant.Denied("files.usage", tenant.Read, "the drive")
	}
	u, err := e.Drive.Usage(c.ctx(), c.fs)
	if err != nil {
		return err
	}
	e.write(c, http.StatusOK, encodeUsage(u))
	return nil
}

func encodeUsage(u drive.Usage) usageBody {
	return usageBody{u.Bytes, u.Files, u.Reserved, u.QuotaBytes, u.QuotaFiles}
}

// check answers POST /v1/check: counters recomputed and compared.
func (e *edge) check(c *call) error {
	if err := c.administrator(); err != nil {
		return err
	}
	report, err := e.Drive.Check(c.ctx(), c.fs)
	if err != nil {
		return err
	}
	problems := report.Problems
	if problems == nil {
		problems = []string{}
	}
	e.write(c, http.StatusOK, map[string]any{
		"ok": report.OK(), "counted": encodeUsage(report.Counted), "recorded": encodeUsage(report.Recorded), "problems": problems,
	})
	return nil
}

// reconcile answers POST /v1/reconcile: the drive is looked through for what nothing
// reaches, now and with repair, or with dry-run=true at once and without.
func (e *edge) reconcile(c *call) error {
	if err := c.administrator(); err != nil {
		return err
	}
	dry, err := c.flag("dry-run")
	if err != nil {
		return err
	}
	if !dry {
		err := e.Removal.MarkNow(c.ctx(), c.fs)
		e.audit(c.ctx(), c, "drive.reconcile", "/", "", err)
		if err != nil {
			return err
		}
		e.write(c, http.StatusAccepted, map[string]bool{"scheduled": true})
		return nil
	}
	found, err := e.Removal.DryReconcile(c.ctx(), c.fs)
	if err != nil {
		return err
	}
	e.write(c, http.StatusOK, map[string]any{"found": found})
	return nil
}

// scrub answers POST /v1/scrub: the store is listed against the contents. With repair=true
// unreferenced objects that are old enough go.
func (e *edge) scrub(c *call) error {
	if err := c.administrator(); err != nil {
		return err
	}
	repair, err := c.flag("repair")
	if err != nil {
		return err
	}
	seen, err := e.Content.Scrub(c.ctx(), int64(c.fs), content.ScrubOptions{Queue: repair})
	if repair {
		e.audit(c.ctx(), c, "drive.scrub", "/", "", err)
	}
	if err != nil {
		return err
	}
	samples := seen.Samples
	if samples == nil {
		samples = []string{}
	}
	e.write(c, http.StatusOK, map[string]any{
		"objects": seen.Objects, "bytes": seen.Bytes, "stray": seen.Stray, "queued": seen.Queued, "foreign": seen.Foreign, "missing": seen.Missing, "samples": samples,
	})
	return nil
}
