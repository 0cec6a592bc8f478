// Package leak fails a package's tests when they leave goroutines behind.
//
// Typical use, in a file main_test.go:
//
//	func TestMain(m *testing.M) { leak.Main(m) }
//
// It looks at the whole process and only after the last test, so it names the goroutine but not the test.
package leak
