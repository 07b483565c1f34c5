module pprofagent.test/e2e

go 1.22

require github.com/google/pprof v0.0.0-20241029153458-d1b30febd7db
