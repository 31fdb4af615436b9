module penstock.dev/loadgen

go 1.23
