package main

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/lethe-project/lethe/client"
)

// warehouseRoutes know the warehouses default and lake; there is no lake to be dropped.
func (f *fake) warehouseRoutes() {
	f.get("/v1/warehouses", func(*http.Request) (any, error) {
		return map[string]any{"warehouses": []client.WarehouseInfo{defaultWarehouse(), lakeWarehouse()}}, nil
	})
	f.get("/v1/warehouses/{warehouse}", func(r *http.Request) (any, error) {
		for _, w := range []client.WarehouseInfo{defaultWarehouse(), lakeWarehouse()} {
			if w.Name == r.PathValue("warehouse") {
				return w, nil
			}
		}
		return nil, fmt.Errorf("warehouse %q does not exist", r.PathValue("warehouse"))
	})
	f.mux.HandleFunc("POST /v1/warehouses", func(w http.ResponseWriter, r *http.Request) {
		var req client.NewWarehouse
		_ = json.NewDecoder(r.Body).Decode(&req)
		if req.Name == "lake" {
			refuse(w, 409, "WarehouseExists", `warehouse "lake" exists already`)
			return
		}
		info := lakeWarehouse()
		info.Name, info.Storage.URL = req.Name, req.Storage.URL
		w.WriteHeader(201)
		_ = json.NewEncoder(w).Encode(info)
	})
	f.mux.HandleFunc("PATCH /v1/warehouses/lake", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(lakeWarehouse())
	})
	f.mux.HandleFunc("DELETE /v1/warehouses/{warehouse}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("warehouse") == "lake" && r.URL.Query().Get("purge") == "true" {
			w.Header().Set("Location", "/v1/jobs/close-3")
			w.WriteHeader(202)
			_, _ = w.Write([]byte(`{"job":"close-3"}`))
			return
		}
		switch r.PathValue("warehouse") {
		case "lake":
			refuse(w, 409, "WarehouseNotEmpty", "the warehouse is not empty: it holds table shop.orders")
		case "empty":
			w.WriteHeader(204)
		case "default":
			refuse(w, 409, "DefaultWarehouse", "the default warehouse cannot be dropped")
		default:
			refuse(w, 404, "NoSuchWarehouse", "warehouse does not exist")
		}
	})
}

func defaultWarehouse() client.WarehouseInfo {
	return client.WarehouseInfo{
		Name: "default", Storage: client.WarehouseStorage{Type: "file", URL: "file:///w"}, Credentials: client.ShownCredentials{Type: "default"},
		CreatedAt: day, UpdatedAt: day, Version: 1,
	}
}

func lakeWarehouse() client.WarehouseInfo {
	on := true
	return client.WarehouseInfo{
		Name: "lake",
		Storage: client.WarehouseStorage{
			Type: "s3", URL: "s3://lake/wh", Endpoint: "http://minio:9000", Region: "eu-west-1", PathStyle: &on, AllowedLocations: []string{"s3://shared/x"},
		},
		Credentials:   client.ShownCredentials{Type: "static", AccessKeyID: "…D002"},
		TableDefaults: map[string]string{"write.format.default": "orc", "a": "b"}, TableOverrides: map[string]string{"owner": "lethe"},
		CreatedAt: day, UpdatedAt: day, Version: 3,
	}
}
