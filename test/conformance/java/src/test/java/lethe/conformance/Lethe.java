package lethe.conformance;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.rest.auth.OAuth2Properties;

/** The server under test, which LETHE_URI and LETHE_TOKEN name, as an ordinary client sees it. */
final class Lethe {
  private static final String URI = required("LETHE_URI");
  private static final String TOKEN = required("LETHE_TOKEN");
  private static final String LOCATIONS = required("LETHE_LOCATIONS");

  /** More properties of the client, {@code name=value} separated by commas. */
  private static final Map<String, String> CLIENT =
      Stream.of(System.getenv().getOrDefault("LETHE_CLIENT", "").split(","))
          .filter(property -> !property.isEmpty())
          .map(property -> property.split("=", 2))
          .collect(Collectors.toMap(property -> property[0], property -> property[1]));

  /**
   * What the suites expect of the client's own configuration: their tests of default and override
   * properties look for exactly these.
   */
  private static final Map<String, String> EXPECTED =
      Map.ofEntries(
          Map.entry(CatalogProperties.TABLE_DEFAULT_PREFIX + "default-key1", "catalog-default-key1"),
          Map.entry(CatalogProperties.TABLE_DEFAULT_PREFIX + "default-key2", "catalog-default-key2"),
          Map.entry(CatalogProperties.TABLE_DEFAULT_PREFIX + "override-key3", "catalog-default-key3"),
          Map.entry(CatalogProperties.TABLE_OVERRIDE_PREFIX + "override-key3", "catalog-override-key3"),
          Map.entry(CatalogProperties.TABLE_OVERRIDE_PREFIX + "override-key4", "catalog-override-key4"),
          Map.entry(CatalogProperties.VIEW_DEFAULT_PREFIX + "key1", "catalog-default-key1"),
          Map.entry(CatalogProperties.VIEW_DEFAULT_PREFIX + "key2", "catalog-default-key2"),
          Map.entry(CatalogProperties.VIEW_DEFAULT_PREFIX + "key3", "catalog-default-key3"),
          Map.entry(CatalogProperties.VIEW_OVERRIDE_PREFIX + "key3", "catalog-override-key3"),
          Map.entry(CatalogProperties.VIEW_OVERRIDE_PREFIX + "key4", "catalog-override-key4"));

  private Lethe() {}

  static RESTCatalog connect(String name, Map<String, String> properties) {
    Map<String, String> all = new HashMap<>(EXPECTED);
    all.put(CatalogProperties.URI, URI);
    all.put(OAuth2Properties.TOKEN, TOKEN);
    all.put(CatalogProperties.FILE_IO_IMPL, LocalFileIO.class.getName());
    all.putAll(CLIENT);
    all.putAll(properties);
    RESTCatalog catalog = new RESTCatalog();
    catalog.initialize(name, all);
    return catalog;
  }

  /** A place that the server allows besides its root, where a suite asks for one by name. */
  static String location(String suite, String... path) {
    return Stream.concat(Stream.of(LOCATIONS, suite), Stream.of(path))
        .collect(Collectors.joining("/"));
  }

  /** Every namespace with everything in it goes, deepest first: each test finds an empty catalog. */
  static void empty(RESTCatalog catalog) {
    empty(catalog, Namespace.empty());
  }

  private static void empty(RESTCatalog catalog, Namespace parent) {
    List<Namespace> children = catalog.listNamespaces(parent);
    for (Namespace namespace : children) {
      empty(catalog, namespace);
      catalog.listTables(namespace).forEach(table -> catalog.dropTable(table, false));
      catalog.listViews(namespace).forEach(catalog::dropView);
      catalog.dropNamespace(namespace);
    }
  }

  private static String required(String variable) {
    String value = System.getenv(variable);
    if (value == null || value.isEmpty()) {
      throw new IllegalStateException(variable + " is not set: run this by `go test`, see java_test.go");
    }
    return value;
  }
}
