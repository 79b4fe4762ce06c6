"""SQLAlchemy 1.4 and 2: the default of the column asks for an id."""
import os

from sqlalchemy import BigInteger, Column, Text, create_engine, insert
from sqlalchemy.orm import declarative_base, sessionmaker

from ids import next_id, next_ids

engine = create_engine(os.environ["DATABASE_URL"], pool_size=5, pool_pre_ping=True, future=True)
Session = sessionmaker(engine, future=True)
Base = declarative_base()


class Order(Base):
    __tablename__ = "orders"
    id = Column(BigInteger, primary_key=True, autoincrement=False, default=lambda: next_id("orders"))
    item = Column(Text, nullable=False)


def create(item):
    with Session.begin() as session:
        order = Order(item=item)
        session.add(order)
        session.flush()
        return order.id


def create_many(items):
    rows = [{"id": i, "item": item} for i, item in zip(next_ids(len(items), "orders"), items)]
    with Session.begin() as session:
        session.execute(insert(Order), rows)  # executemany; without ids the default would ask once for each row
