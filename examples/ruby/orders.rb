# Five orders, each with an id from katsubushi.
require "dalli"

# The daemon cannot be reached, or has no id now: try again later.
class NoId < StandardError; end

# One for the whole process: it keeps its connection open, and threads may share it. It tries a second time by itself.
Dalli.logger.level = Logger::ERROR
IDS = Dalli::Client.new(ENV.fetch("IDS", "127.0.0.1:11212"), raw: true, socket_timeout: 2, down_retry_delay: 1)

def next_id
  Integer(IDS.get("id") || raise(NoId, "no id: the answer is empty"), 10)
rescue Dalli::DalliError => e
  raise NoId, "no id: #{e.message}"
end

begin
  5.times { puts next_id }
rescue NoId => e
  abort e.message
end
