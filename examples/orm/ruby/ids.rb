# Ids from katsubushi for models: Ids.next for one, Ids.take(n) for a bulk insert.
require "connection_pool"
require "redis"

# No daemon has an id now: try again later.
class NoId < StandardError; end

module Ids
  # A pool of connections for each daemon. Threads share them; the second daemon is asked if the first has no ids.
  DAEMONS = ENV.fetch("IDS", "127.0.0.1:11212").split(",").map do |address|
    host, port = address.split(":")
    ConnectionPool.new(size: 16, timeout: 2) { Redis.new(host: host, port: port.to_i, connect_timeout: 1, timeout: 2) }
  end

  # n ids, with one request for each 1,000. A name that the daemons do not declare gets plain ids.
  def self.take(n, name = "id")
    return take(1000, name) + take(n - 1000, name) if n > 1000
    why = []
    DAEMONS.each do |pool|
      values = pool.with { |redis| redis.mget([name] * n) }
      return values.map { |v| v.is_a?(Exception) ? raise(v) : Integer(v, 10) }
    rescue Redis::BaseError, Timeout::Error => e
      why << e.message
    end
    raise NoId, "no id: #{why.join("; ")}"
  end

  def self.next(name = "id")
    take(1, name).first
  end
end
