//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// fileSystems are the names of magic numbers of statfs(2).
var fileSystems = map[int64]string{0xef53: "ext4", 0x58465342: "XFS", 0x9123683e: "btrfs", 0x01021994: "tmpfs", 0x794c7630: "overlayfs", 0x2fc12fc1: "ZFS"}

// describeMachine describes the processor, the kernel, the file system, the load before the
// measurement and the versions of programs.
func describeMachine(e *environment) (string, error) {
	processor := "unknown processor"
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(info)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			processor = strings.TrimSpace(value)
			break
		}
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "", err
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(e.dir, &fs); err != nil {
		return "", err
	}
	system := fileSystems[int64(fs.Type)]
	if system == "" {
		system = fmt.Sprintf("file system %#x", fs.Type)
	}
	busy, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "", err
	}
	average, _, _ := strings.Cut(string(busy), " ")
	text := fmt.Sprintf("%s, %d cores, Linux %s, %s; the load average was %s before. Go %s", processor, runtime.NumCPU(), strings.TrimSpace(string(kernel)), system, average, strings.TrimPrefix(runtime.Version(), "go"))
	for _, v := range [][]string{{"nginx", "nginx", "-v"}, {"redis-server", "Redis", "--version"}, {"postgres", "PostgreSQL", "--version"}, {"versitygw", "versitygw", "--version"}, {"wrk", "wrk", "-v"}} {
		if found := e.versionOf(v[0], v[2]); found != "" {
			text += ", " + v[1] + " " + found
		}
	}
	return text + ".", nil
}

// versionOf returns the version that a program prints, or "".
func (e *environment) versionOf(program, flag string) string {
	path := e.programs[program]
	if program == "postgres" && path != "" {
		path += "/postgres"
	}
	if path == "" || program == "versitygw" { // a versitygw that was built from its module does not know its version
		return firstVersion(path)
	}
	out, _ := exec.CommandContext(context.Background(), path, flag).CombinedOutput() // wrk -v fails
	return firstVersion(string(out))
}

// firstVersion returns the first number with a dot in a text.
func firstVersion(text string) string {
	for _, field := range strings.FieldsFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789.", r) }) {
		if strings.Contains(strings.Trim(field, "."), ".") {
			return strings.Trim(field, ".")
		}
	}
	return ""
}
