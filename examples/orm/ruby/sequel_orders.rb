# Sequel: a hook asks for an id before the INSERT.
require "sequel"
require_relative "ids"

DB = Sequel.connect(adapter: "postgres", max_connections: 5) # libpq reads PGHOST and PGDATABASE

class Order < Sequel::Model(:orders)
  unrestrict_primary_key

  def before_create
    self.id ||= Ids.next("orders")
    super
  end
end

def create(item)
  Order.create(item: item).id
end

# import calls no hooks, so the rows bring their ids.
def create_many(items)
  Order.dataset.import([:id, :item], Ids.take(items.size, "orders").zip(items), slice: 1000)
end
