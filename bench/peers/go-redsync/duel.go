package main

import (
	"bufio"
	"flag"
	"os"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// duel is driven by stdin: see "The duel" in the README of the peers.
func duel(args []string) {
	flags := flag.NewFlagSet("duel", flag.ExitOnError)
	nodes := flags.String("nodes", "127.0.0.1:6379", "")
	ttl := flags.Int("ttl", 8000, "")
	setnx := flags.Bool("setnx", false, "")
	flags.Parse(args)
	var pools []redsyncredis.Pool
	for _, address := range strings.Split(*nodes, ",") {
		pools = append(pools, goredis.NewPool(redis.NewClient(&redis.Options{Addr: address})))
	}
	rs := redsync.New(pools...)
	options := []redsync.Option{redsync.WithExpiry(time.Duration(*ttl) * time.Millisecond)}
	if *setnx {
		options = append(options, redsync.WithSetNXOnExtend())
	}
	held := map[string]*redsync.Mutex{}
	emit(map[string]any{"ok": true})
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		op, name, _ := strings.Cut(in.Text(), " ")
		m := held[name]
		if m == nil && op != "acquire" && op != "try" {
			emit(map[string]any{"ok": false, "why": "not acquired"})
			continue
		}
		ok, err := false, error(nil)
		switch op {
		case "acquire", "try":
			m = rs.NewMutex(name, options...)
			if op == "try" {
				err = m.TryLock()
			} else {
				err = m.Lock()
			}
			if ok = err == nil; ok {
				held[name] = m
			}
		case "valid":
			ok = time.Now().Before(m.Until())
		case "ask":
			ok, err = m.Valid()
		case "extend":
			ok, err = m.Extend()
		case "release":
			delete(held, name)
			ok, err = m.Unlock()
		}
		answer := map[string]any{"ok": ok}
		if err != nil {
			answer["why"] = err.Error()
		}
		emit(answer)
	}
}
