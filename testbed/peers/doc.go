// Package peers runs other people's software for tests: squid, tinyproxy, dante, microsocks and nghttpx
// as proxies, and nginx as an origin. What works with our own testbed alone may only prove that
// we misread an RFC twice in the same way.
//
//	proxy := peers.Start(t, peers.Squid{Username: "u", Password: "p"})
//	origin := peers.StartNginx(t, peers.Nginx{Sizes: []int64{1 << 20}})
//
// Every peer listens on a free port of 127.0.0.1, lets only 127.0.0.0/8 in, keeps its files in a directory of its
// own that goes with it, runs in the foreground as one process group and ends with the test, or with the
// test's process if that dies first (on Linux). As root, peers run as the user nobody, so that the same
// configuration works for both. Passwords are on command lines and in files: never use real ones.
//
// The programs are those of Debian's packages ([Programs] names both) and are never installed from here. A test
// that needs one that is missing is skipped, and fails when the environment says CI=true.
//
// The package does not check what a peer answers; that is the test's job.
package peers
