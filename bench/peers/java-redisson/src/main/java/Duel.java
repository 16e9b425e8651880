// Redisson driven by stdin: see "The duel" in the README of the peers. One thread, for a lock belongs to its thread.
import java.io.*;
import java.util.*;
import org.redisson.*;
import org.redisson.api.*;
import org.redisson.config.Config;

public class Duel {
    static final List<RedissonClient> clients = new ArrayList<>();
    static final Map<String, RLock> held = new HashMap<>();

    static RLock[] each(String name) {
        return clients.stream().map(c -> c.getLock(name)).toArray(RLock[]::new);
    }

    static RLock lock(String name) {
        RLock[] locks = each(name);
        return locks.length == 1 ? locks[0] : new RedissonRedLock(locks);
    }

    static boolean take(String op, String name) {
        RLock lock = lock(name);
        if (op.equals("try")) {
            if (!lock.tryLock()) return false;
        } else {
            lock.lock();
        }
        held.put(name, lock);
        return true;
    }

    static String answer(String op, String name) {
        if (op.equals("acquire") || op.equals("try")) return say(take(op, name));
        RLock lock = held.get(name);
        if (lock == null) return "{\"ok\":false,\"why\":\"not acquired\"}";
        switch (op) {
            case "valid": // no deadline to look at: the watchdog renews until unlock(), and nothing is said if it cannot
                return say(true);
            case "ask": // RedissonRedLock cannot be asked, its parts can
                return say(Arrays.stream(each(name)).filter(RLock::isHeldByCurrentThread).count() > clients.size() / 2);
            case "release":
                held.remove(name);
                lock.unlock();
                return say(true);
            default: // no extension but the watchdog's
                return "{\"ok\":false,\"none\":true}";
        }
    }

    static String say(boolean ok) {
        return "{\"ok\":" + ok + "}";
    }

    public static void main(String[] args) throws Exception {
        Map<String, String> a = new HashMap<>();
        for (int i = 0; i + 1 < args.length; i += 2) a.put(args[i].substring(2), args[i + 1]);
        for (String node : a.get("nodes").split(",")) {
            Config c = new Config();
            c.useSingleServer().setAddress("redis://" + node);
            c.setLockWatchdogTimeout(Long.parseLong(a.get("ttl")));
            clients.add(Redisson.create(c));
        }
        System.out.println(say(true));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ", 2);
            try {
                System.out.println(answer(words[0], words[1]));
            } catch (Exception e) {
                String why = String.valueOf(e).replaceAll("[^ -~]|[\"\\\\]", " ");
                System.out.println("{\"ok\":false,\"why\":\"" + why + "\"}");
            }
        }
        Runtime.getRuntime().halt(0);
    }
}
