module pprofagent.test/bench

go 1.22
