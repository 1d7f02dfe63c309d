DROP TABLE slots, sku_prices, skus;
