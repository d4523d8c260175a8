package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// environment makes a Python virtual environment with the pinned versions of a client,
// again when these change, and returns its folder.
func environment(ctx context.Context, dir, requirements string) (string, error) {
	pins, err := os.ReadFile(requirements)
	if err != nil {
		return "", err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	sum := sha256.Sum256(pins)
	mark, want := filepath.Join(dir, "made-from"), hex.EncodeToString(sum[:])
	if got, err := os.ReadFile(mark); err == nil && string(got) == want {
		return dir, nil
	}
	usable := func() bool { return quiet(ctx, "python3", "-c", "import venv, ensurepip") == nil }
	if err := need(ctx, usable, "python3", "python3-venv"); err != nil {
		return "", err
	}
	if err := quiet(ctx, "python3", "-m", "venv", "--clear", dir); err != nil {
		return "", err
	}
	if err := fetch(ctx, filepath.Join(dir, "bin", "pip"), "install", "--disable-pip-version-check", "--no-deps", "-r", requirements); err != nil {
		return "", err
	}
	return dir, os.WriteFile(mark, []byte(want), 0o600)
}

// pyiceberg prepares PyIceberg.
func pyiceberg(ctx context.Context) ([]string, error) {
	dir, err := environment(ctx, ".cache/venv", "test/conformance/pyiceberg/requirements.txt")
	return []string{"LETHE_PYTHON=" + filepath.Join(dir, "bin", "python")}, err
}

// duckdb prepares DuckDB with its extensions.
func duckdb(ctx context.Context) ([]string, error) {
	dir, err := environment(ctx, ".cache/duckdb", "test/conformance/duckdb/requirements.txt")
	return []string{"LETHE_DUCKDB=" + dir}, err
}

// java prepares the Java suites: their classes and what Maven brings for them.
func java(ctx context.Context) ([]string, error) {
	if err := need(ctx, func() bool { return has("java") && has("mvn") }, "default-jdk-headless", "maven"); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(".cache/java")
	if err != nil {
		return nil, err
	}
	return nil, fetch(ctx, "mvn", "--batch-mode", "--quiet", "--file", "test/conformance/java/pom.xml", "test", "-DskipTests", "-Dbuild.dir="+dir)
}

// spark prepares Spark, and Iceberg's runtime for it from Maven.
func spark(ctx context.Context) ([]string, error) {
	if err := need(ctx, func() bool { return has("java") && has("mvn") }, "default-jdk-headless", "maven"); err != nil {
		return nil, err
	}
	dir, err := environment(ctx, ".cache/spark", "test/conformance/spark/requirements.txt")
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile("test/conformance/spark/runtime.txt")
	if err != nil {
		return nil, err
	}
	runtime := strings.TrimSpace(string(text))
	parts := strings.Split(runtime, ":") // group, artifact, version
	if len(parts) != 3 {
		return nil, fmt.Errorf("runtime.txt is no artifact: %q", runtime)
	}
	env := []string{"LETHE_SPARK=" + dir}
	jars := filepath.Join(dir, "jars")
	if _, err := os.Stat(filepath.Join(jars, parts[1]+"-"+parts[2]+".jar")); err == nil {
		return env, nil
	}
	return env, fetch(ctx, "mvn", "--batch-mode", "dependency:copy", "-Dartifact="+runtime, "-DoutputDirectory="+jars)
}
