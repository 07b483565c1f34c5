module pprofagent.test/e2e

go 1.22.0

require (
	github.com/google/pprof v0.0.0-20241029153458-d1b30febd7db
	golang.org/x/exp v0.0.0-20240909161429-701f63a606c0
)
