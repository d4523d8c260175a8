package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// spread describes a sample; quantiles are nearest-rank.
type spread struct {
	N   int     `json:"n"`
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func spreadOf(sample []float64) spread {
	if len(sample) == 0 {
		return spread{}
	}
	s := slices.Sorted(slices.Values(sample))
	at := func(q float64) float64 { return s[max(int(math.Ceil(q*float64(len(s))))-1, 0)] }
	return spread{N: len(s), Min: s[0], P50: at(0.50), P95: at(0.95), P99: at(0.99), Max: s[len(s)-1]}
}

// text writes the quantiles with a unit.
func (s spread) text(unit string) string {
	return fmt.Sprintf("p50 %.4g  p95 %.4g  p99 %.4g  max %.4g %s  (%d)", s.P50, s.P95, s.P99, s.Max, unit, s.N)
}

// rangeText writes the median of few runs with its range.
func (s spread) rangeText(unit string) string {
	return fmt.Sprintf("median %.4g %s  (%.4g to %.4g, %d runs)", s.P50, unit, s.Min, s.Max, s.N)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// ratio is 0 when there is nothing to compare with.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
