package bench

import (
	"math"
	"slices"
)

// median returns the middle of the samples, NaN if there are none.
func median(samples []float64) float64 {
	return quantile(samples, 0.5)
}

// quantile returns the value below which a part q of the samples lies, interpolated between the two nearest.
func quantile(samples []float64, q float64) float64 {
	if len(samples) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(samples))
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low == len(sorted)-1 {
		return sorted[low]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

// ratios divides sample by sample: each pair was measured in the same round.
func ratios(over, under []float64) []float64 {
	n := min(len(over), len(under))
	pairs := make([]float64, 0, n)
	for i := range n {
		pairs = append(pairs, over[i]/under[i])
	}
	return pairs
}

// twins returns the names of columns whose samples are all equal, in pairs. Columns are measured apart, so equal ones mean
// that one thing was measured twice, or none. Columns of fewer than three samples are not judged.
func twins(names []string, columns [][]float64) [][2]string {
	const fewest = 3
	var found [][2]string
	for i := range columns {
		for j := range i {
			if len(columns[i]) >= fewest && slices.Equal(columns[i], columns[j]) {
				found = append(found, [2]string{names[j], names[i]})
			}
		}
	}
	return found
}
