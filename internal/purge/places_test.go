package purge

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lethe-project/lethe/internal/blob"
)

// The look-ups answer as Location.Contains does.
func TestPlaces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		location := rapid.Custom(func(rt *rapid.T) blob.Location {
			base := rapid.SampledFrom([]string{"s3://b", "s3://b2", "file://"}).Draw(rt, "base")
			for _, part := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "ab", "b"}), 0, 4).Draw(rt, "path") {
				base += "/" + part
			}
			return blob.Location(base)
		})
		set := rapid.SliceOfN(location, 0, 6).Draw(rt, "places")
		l := location.Draw(rt, "l")
		p := places{}
		var above []blob.Location
		for _, s := range set {
			p[s] = struct{}{}
			if s.Contains(l) {
				above = append(above, s)
			}
		}
		slices.Sort(above) // of those that contain one another the shorter comes first
		near, ok := p.nearest(l)
		high, okHigh := p.highest(l)
		if ok != (len(above) > 0) || okHigh != ok || p.holds(l) != ok {
			rt.Fatalf("%v holds %s: %v, %v", set, l, ok, okHigh)
		}
		if ok && (near != above[len(above)-1] || high != above[0]) {
			rt.Fatalf("%v around %s: nearest %s, highest %s", set, l, near, high)
		}
	})
}
