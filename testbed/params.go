package testbed

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseSize reads a number of bytes with an optional unit: B, KB, MB, GB (powers of 1000), KiB, MiB, GiB (of 1024).
func ParseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "BKMGi")
	factor := int64(1)
	switch s[len(digits):] {
	case "", "B":
	case "KB":
		factor = 1e3
	case "MB":
		factor = 1e6
	case "GB":
		factor = 1e9
	case "KiB":
		factor = 1 << 10
	case "MiB":
		factor = 1 << 20
	case "GiB":
		factor = 1 << 30
	default:
		return 0, fmt.Errorf("testbed: size %q: the unit can be one of B, KB, MB, GB, KiB, MiB, GiB", s)
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > 1<<62/factor {
		return 0, fmt.Errorf("testbed: size %q is not a number of bytes", s)
	}
	return n * factor, nil
}

// number reads a count; empty is byDefault.
func number(s string, byDefault int) (int, error) {
	if s == "" {
		return byDefault, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("testbed: %q is not a count", s)
	}
	return n, nil
}

// duration reads a duration such as 100ms; empty is byDefault.
func duration(s string, byDefault time.Duration) (time.Duration, error) {
	if s == "" {
		return byDefault, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("testbed: %q is not a duration such as 100ms", s)
	}
	return d, nil
}

func defaulted(s, byDefault string) string {
	if s == "" {
		return byDefault
	}
	return s
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
