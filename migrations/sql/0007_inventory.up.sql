-- What is sold and what it is made of: SKUs, their prices over time, and one slot per GPU as inspection found it.

CREATE TABLE skus (
    id                 uuid PRIMARY KEY,
    name               text NOT NULL UNIQUE,
    title              text NOT NULL,
    shape              text NOT NULL CHECK (shape IN ('baremetal', 'gpu_slice')),
    gpu_vendor         text NOT NULL,
    gpu_model          text NOT NULL,
    gpu_memory_bytes   bigint NOT NULL CHECK (gpu_memory_bytes > 0),
    gpus_per_node      integer NOT NULL CHECK (gpus_per_node BETWEEN 1 AND 64),
    allowed_gpu_counts integer[] NOT NULL CHECK (cardinality(allowed_gpu_counts) BETWEEN 1 AND 64),
    whole_node_only    boolean NOT NULL,
    needs_nvme         boolean NOT NULL,
    needs_fabric       boolean NOT NULL,
    region             text NOT NULL,
    state              text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'retired')),
    created_at         timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE skus IS 'platform: what is sold; every tenant reads it';
GRANT SELECT, INSERT ON skus TO :app;
GRANT UPDATE (title, allowed_gpu_counts, whole_node_only, state) ON skus TO :app;

-- A price holds from an instant on, until the next one; what was once promised is never changed.
CREATE TABLE sku_prices (
    id                  uuid PRIMARY KEY,
    sku_id              uuid NOT NULL REFERENCES skus,
    currency            text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    micros_per_gpu_hour bigint NOT NULL CHECK (micros_per_gpu_hour BETWEEN 0 AND 1000000000000),
    valid_from          timestamptz NOT NULL,
    set_by              text NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT sku_prices_one_from UNIQUE (sku_id, currency, valid_from)
);
COMMENT ON TABLE sku_prices IS 'platform: prices of SKUs over time; append-only';
GRANT SELECT, INSERT ON sku_prices TO :app;
CREATE TRIGGER sku_prices_keep BEFORE UPDATE OR DELETE ON sku_prices FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER sku_prices_keep_all BEFORE TRUNCATE ON sku_prices FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE slots (
    id             uuid PRIMARY KEY,
    node_id        uuid NOT NULL,
    serial         text NOT NULL,
    gpu_index      integer NOT NULL CHECK (gpu_index BETWEEN 0 AND 63),
    address        text NOT NULL,
    vendor         text NOT NULL,
    model          text NOT NULL,
    memory_bytes   bigint NOT NULL,
    numa           integer NOT NULL,
    iommu_group    integer NOT NULL,
    nvme_address   text,
    fabric_address text,
    present        boolean NOT NULL,
    first_seen_at  timestamptz NOT NULL DEFAULT now(),
    last_seen_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT slots_one_serial UNIQUE (node_id, serial)
);
CREATE INDEX slots_by_serial ON slots (serial);
COMMENT ON TABLE slots IS 'platform: one per GPU of a node, as its agent found it';
GRANT SELECT, INSERT, UPDATE ON slots TO :app;
