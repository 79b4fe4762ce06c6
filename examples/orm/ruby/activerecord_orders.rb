# ActiveRecord: a callback asks for an id before the INSERT.
require "active_record"
require_relative "ids"

ActiveRecord::Base.establish_connection( # what config/database.yml has; the adapter is postgresql or mysql2
  adapter: ENV["DB_DRIVER"], host: ENV["DB_HOST"], port: ENV["DB_PORT"], username: ENV["DB_USER"], database: ENV["DB_NAME"], pool: 5
)

class Order < ActiveRecord::Base
  before_create { self.id ||= Ids.next("orders") }
end

def create(item)
  Order.create!(item: item).id
end

# insert_all! calls no callbacks, so the rows bring their ids. insert_all would skip a row whose id exists.
def create_many(items)
  rows = items.zip(Ids.take(items.size, "orders")).map { |item, id| { id: id, item: item } }
  Order.transaction { rows.each_slice(1000) { |some| Order.insert_all!(some) } }
end
