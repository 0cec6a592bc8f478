package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// clockTick is the unit of CPU times in /proc, which is the same on all Linux systems that Go runs on.
const clockTick = 10 * time.Millisecond

// processCPU returns the CPU time that a process has used so far, user and system, in ticks of 10 ms.
func processCPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(stat)
}

// parseStat reads utime and stime, fields 14 and 15. The second field is the program's name in parentheses, which may
// hold anything.
func parseStat(stat []byte) (time.Duration, error) {
	const state, utime = 3, 14
	_, behind, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	fields := bytes.Fields(behind)
	if !ok || len(fields) < utime-state+2 {
		return 0, fmt.Errorf("not what /proc/PID/stat holds: %q", stat)
	}
	var ticks int64
	for _, field := range fields[utime-state : utime-state+2] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}
