package lethe.conformance;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.Map;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.catalog.CatalogTests;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NotFoundException;
import org.apache.iceberg.rest.RESTCatalog;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Iceberg's suite for namespaces and tables, with everything on that a catalog may support. */
class LetheCatalogTest extends CatalogTests<RESTCatalog> {
  private static RESTCatalog catalog;

  @BeforeAll
  static void connect() {
    catalog = Lethe.connect("lethe", Map.of());
  }

  @BeforeEach
  void empty() {
    Lethe.empty(catalog);
  }

  @AfterAll
  static void close() throws Exception {
    catalog.close();
  }

  @Override
  protected RESTCatalog catalog() {
    return catalog;
  }

  @Override
  protected RESTCatalog initCatalog(String name, Map<String, String> properties) {
    return Lethe.connect(name, properties);
  }

  @Override
  protected String baseTableLocation(TableIdentifier identifier) {
    return Lethe.location("tables", identifier.namespace().toString(), identifier.name());
  }

  @Override
  protected boolean supportsNamespaceProperties() {
    return true;
  }

  @Override
  protected boolean supportsNestedNamespaces() {
    return true;
  }

  @Override
  protected boolean requiresNamespaceCreate() {
    return true;
  }

  @Override
  protected boolean supportsServerSideRetry() {
    return true;
  }

  @Override
  protected boolean overridesRequestedLocation() {
    return false;
  }

  @Override
  protected boolean supportsNamesWithSlashes() {
    return true;
  }

  @Override
  protected boolean supportsNamesWithDot() {
    return true;
  }

  @Override
  protected boolean supportsEmptyNamespace() {
    return false; // the client cannot name it
  }

  /**
   * What testLoadTableWithMissingMetadataFile looks for, on a table that the server has not in
   * memory: metadata files never change, so it reads each of them once.
   */
  @Test
  void missingMetadataFileOnAColdLoad() throws IOException {
    catalog.createNamespace(TBL.namespace());
    BaseTable made = (BaseTable) catalog.createTable(TBL, SCHEMA);
    String file = made.operations().current().metadataFileLocation();
    String copy = file.replace(".metadata.json", "-copy.metadata.json");
    try (InputStream in = made.io().newInputFile(file).newStream();
        OutputStream out = made.io().newOutputFile(copy).create()) {
      in.transferTo(out);
    }
    catalog.dropTable(TBL, false);
    catalog.registerTable(TBL, copy);
    made.io().deleteFile(copy);
    assertThatThrownBy(() -> catalog.loadTable(TBL))
        .isInstanceOf(NotFoundException.class)
        .hasMessageContaining(copy);
    assertThat(catalog.dropTable(TBL, false)).as("the entry can still be dropped").isTrue();
  }
}
